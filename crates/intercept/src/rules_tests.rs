use super::*;

#[test]
fn masks_have_as_many_leading_bits_as_the_prefix() {
    let mask = |bits| std::array::from_fn::<u8, 4, _>(|index| mask_byte(bits, index));
    assert_eq!(mask(0), [0, 0, 0, 0]);
    assert_eq!(mask(8), [255, 0, 0, 0]);
    assert_eq!(mask(12), [255, 240, 0, 0]);
    assert_eq!(mask(31), [255, 255, 255, 254]);
    assert_eq!(mask(32), [255, 255, 255, 255]);
    assert_eq!(std::array::from_fn::<u8, 16, _>(|index| mask_byte(128, index)), [255; 16]);
}
