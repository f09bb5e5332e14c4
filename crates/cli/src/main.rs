//! The `atoll` program: everything is in the library.

fn main() -> std::process::ExitCode {
    atoll_cli::main()
}
