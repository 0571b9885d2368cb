//! The proxy's binary.

fn main() -> std::process::ExitCode {
    leno_proxy::main_with_args(&[], std::env::args_os())
}
