use clap::Parser;

use super::*;

#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    options: Options,
}

#[test]
fn what_is_written_as_arguments_is_read_as_the_same_options() {
    let options = Options {
        parent: 7,
        namespace: "/run/netns/leno0-2".into(),
        hosts: Some("/run/leno/runs/2/hosts".into()),
        uid: Some(1000),
        gid: Some(100),
        group: vec![100, 27],
        proxy: false,
        args: vec!["./server".into(), "--proxy".into(), "--".into(), "-x".into()],
    };
    for options in
        [Options { uid: None, gid: None, group: Vec::new(), hosts: None, proxy: true, ..options.clone() }, options]
    {
        let read = Cli::try_parse_from(options.to_args()).map(|cli| cli.options).expect("they are its own");
        assert_eq!(format!("{read:?}"), format!("{options:?}"));
    }
}
