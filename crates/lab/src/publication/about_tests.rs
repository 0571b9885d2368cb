use super::*;

#[test]
fn the_page_of_a_publication_has_its_conditions_experiments_and_gaps() {
    for name in Name::ALL {
        let mut text = Vec::new();
        write_page(name, &Programs::default(), &mut text).expect("a Vec takes all text");
        let text = String::from_utf8(text).expect("text");
        for words in
            ["leno-mesh", "Linkerd", "Scale quick: about", "leno lab run ", "Left out at scale quick", "https://"]
        {
            assert!(text.contains(words), "{name}, {words}: {text}");
        }
    }
}
