//! Moves overlapping labels apart, as little as possible.

/// Returns positions for labels that should be at `wanted`, in the same order. The positions are at least `gap` apart,
/// and between `top` and `bottom` if the labels fit.
pub(super) fn spread(wanted: &[f64], gap: f64, (top, bottom): (f64, f64)) -> Vec<f64> {
    let mut order: Vec<usize> = (0..wanted.len()).collect();
    order.sort_by(|&a, &b| wanted[a].total_cmp(&wanted[b]));
    // Neighbors that are too close form a block, centered at the mean of its labels' wanted positions.
    let mut blocks: Vec<Block> = Vec::new();
    for &label in &order {
        let mut block = Block { labels: vec![label], start: wanted[label] };
        while let Some(above) = blocks.pop_if(|above| above.start + above.labels.len() as f64 * gap > block.start) {
            block = above.joined_with(block, gap);
        }
        blocks.push(block);
    }
    let mut places = vec![0.0; wanted.len()];
    let (mut at, mut left) = (top, wanted.len());
    for block in &blocks {
        for (number, &label) in block.labels.iter().enumerate() {
            left -= 1;
            let place = (block.start + number as f64 * gap).min(bottom - left as f64 * gap).max(at);
            places[label] = place;
            at = place + gap;
        }
    }
    places
}

struct Block {
    labels: Vec<usize>,
    /// Position of the block's first label.
    start: f64,
}

impl Block {
    fn joined_with(mut self, below: Self, gap: f64) -> Self {
        let (above_count, below_count) = (self.labels.len() as f64, below.labels.len() as f64);
        let below_start = below.start - above_count * gap;
        self.start = (self.start * above_count + below_start * below_count) / (above_count + below_count);
        self.labels.extend(below.labels);
        self
    }
}

#[cfg(test)]
#[path = "labels_tests.rs"]
mod tests;
