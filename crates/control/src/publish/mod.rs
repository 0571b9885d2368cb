//! Serves the mesh over xDS.
