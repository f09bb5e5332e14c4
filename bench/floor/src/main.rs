//! The floor starts as cheaply as what it is held against: by the C `main`, without
//! the standard library's start-up code.
#![no_main]

#[expect(unsafe_code, reason = "the name that the C start-up code calls")]
#[unsafe(no_mangle)]
extern "C" fn main(_count: i32, _arguments: *const *const u8) -> i32 {
    floor::main()
}
