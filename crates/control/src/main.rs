fn main() -> std::process::ExitCode {
    leno_control::main_with_args(std::env::args_os())
}
