//! The resident process alone. For tests.

fn main() -> std::io::Result<()> {
    atoll_spawner::resident::from_standard_input()
}
