//! Asking the user on a terminal that the command has to itself otherwise.
//!
//! While a question stands, what the command writes waits in its own terminal, and the keys are
//! for the question. Afterwards the command is told that the size of its terminal changed, so that
//! a program that fills the screen draws it anew.

use super::dialog::{Answer, Dialog, Question, Step};
use super::pump::Read;
use super::relay::Relay;
use crate::env;
use rustix::io::Errno;
use rustix::termios::Winsize;
use std::time::Instant;

/// How far asking has come.
#[derive(Debug, Default)]
pub(super) enum Asking {
    /// Nobody is asked anything.
    #[default]
    No,
    /// What the command has written is still on its way to the screen.
    Waits,
    /// A question is on the screen.
    Stands(Dialog),
}

/// The number of a question, and what was answered.
pub(super) type Answered = (u64, Answer);

impl Relay {
    /// Asks, as soon as that can be; again and again called, it asks once.
    pub(super) fn ask(&mut self, question: &Question) {
        match &self.asking {
            Asking::Stands(dialog) if dialog.number() == question.number => return,
            Asking::Stands(_) => self.stop_asking(),
            Asking::No | Asking::Waits => {}
        }
        if !self.can_ask() {
            self.asking = Asking::No;
            return;
        }
        self.asking = Asking::Waits;
        if !self.is_flushed() {
            return;
        }
        // What was pressed by now is the command's.
        self.hand_keys_on();
        if !self.terminal.is_raw() && self.terminal.enter_raw().is_err() {
            return;
        }
        let columns = self.terminal.size().ws_col;
        let is_dumb = env::TERM.get().is_none_or(|term| term == "dumb");
        let (dialog, text) = Dialog::new(question.clone(), columns, is_dumb, Instant::now());
        self.asking = Asking::Stands(dialog);
        self.show(&text);
    }

    pub(super) fn is_asking(&self) -> bool {
        !matches!(self.asking, Asking::No)
    }

    /// When time matters to the question.
    pub(super) fn asking_alarm(&self) -> Option<Instant> {
        match &self.asking {
            Asking::Stands(dialog) => Some(dialog.alarm()),
            Asking::No | Asking::Waits => None,
        }
    }

    /// Takes the question off the screen, without an answer.
    pub(super) fn stop_asking(&mut self) {
        if let Asking::Stands(_) = self.asking {
            self.show(Dialog::taken_back());
            self.leave();
        }
        self.asking = Asking::No;
    }

    /// What time that went by comes to.
    pub(super) fn look_at_question(&mut self) -> Option<Answered> {
        let Asking::Stands(dialog) = &mut self.asking else { return None };
        let (number, step) = (dialog.number(), dialog.look_at_clock(Instant::now()));
        self.take(number, step)
    }

    /// What keys come to, if there are some.
    pub(super) fn read_answer(&mut self) -> Option<Answered> {
        while let Asking::Stands(dialog) = &mut self.asking {
            let mut bytes = [0; 256];
            let count = match rustix::io::read(self.terminal.fd(), &mut bytes) {
                Ok(0) | Err(Errno::AGAIN) => return None,
                Ok(count) => count,
                Err(Errno::INTR) => continue,
                Err(Errno::IO) if !self.terminal.is_foreground() => {
                    // Somebody else has the terminal, and whoever sits there.
                    self.asking = Asking::No;
                    return None;
                }
                Err(_) => {
                    self.hang_up();
                    return None;
                }
            };
            let (number, step) = (dialog.number(), dialog.press(&bytes[..count], Instant::now()));
            let answered = self.take(number, step);
            if answered.is_some() {
                return answered;
            }
        }
        None
    }

    fn take(&mut self, number: u64, step: Step) -> Option<Answered> {
        self.show(&step.shown);
        let answer = step.answer?;
        self.asking = Asking::No;
        self.leave();
        Some((number, answer))
    }

    fn show(&mut self, text: &str) {
        self.output.push(text.as_bytes());
        self.write_output();
    }

    /// Gives the terminal back to the command.
    fn leave(&mut self) {
        if !self.is_in_front() {
            self.terminal.leave_raw();
        }
        let size = self.terminal.size();
        if let Some(master) = self.master.as_ref().filter(|_| size.ws_row > 1) {
            // A size that is the same is none that is told.
            let other = Winsize { ws_row: size.ws_row - 1, ..size };
            rustix::termios::tcsetwinsize(master, other).ok();
            rustix::termios::tcsetwinsize(master, size).ok();
        }
    }

    fn hand_keys_on(&mut self) {
        while self.reads_keys() {
            match self.input.read(self.terminal.fd()) {
                Read::Some => self.write_input(),
                Read::Nothing | Read::Zero | Read::Failed(_) => break,
            }
        }
    }
}
