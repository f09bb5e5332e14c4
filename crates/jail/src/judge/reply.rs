//! What a caller gets.

use std::os::fd::AsFd as _;

use atoll_sys::notify::{Listener, Reply};
use rustix::io::Errno;

use super::caller::errno;
use super::state::Answer;

/// Answers. A caller that is gone needs no answer.
pub(super) fn reply(listener: &mut Listener, id: u64, answer: Result<Answer, Errno>) {
    let reply = match answer {
        Ok(Answer::File { file, cloexec, is_program }) => {
            let given = if is_program {
                listener.hand_over(id, file, cloexec)
            } else {
                listener.reply_with_fd(id, file.as_fd(), cloexec).map(drop)
            };
            match given {
                Ok(()) => return,
                // By the caller's limit of descriptors, for one.
                Err(error) => Reply::Error(errno(error).raw_os_error()),
            }
        }
        Ok(Answer::Done) => Reply::Value(0),
        Ok(Answer::Continue) => Reply::Continue,
        Ok(Answer::Later { .. }) => Reply::Error(libc::EAGAIN),
        Err(error) => Reply::Error(error.raw_os_error()),
    };
    let _gone = listener.reply(id, reply);
}
