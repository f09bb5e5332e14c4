//! Putting netlink messages together while the program is compiled.

/// `NLM_F_REQUEST`, `NLM_F_ACK`, `NLM_F_CREATE`, `NLM_F_APPEND`, of netlink(7).
pub(super) const REQUEST: u16 = 1;
pub(super) const ACK: u16 = 4;
pub(super) const CREATE: u16 = 0x400;
pub(super) const APPEND: u16 = 0x800;

/// `NLA_F_NESTED`.
const NESTED: u16 = 0x8000;

/// Messages, one behind the other. What does not fit does not compile.
pub(super) struct Bytes<const N: usize> {
    bytes: [u8; N],
    length: u16,
    messages: u8,
}

/// Where something begins whose length is not known yet.
pub(super) struct Open(u16);

impl<const N: usize> Bytes<N> {
    pub(super) const fn new() -> Self {
        Self { bytes: [0; N], length: 0, messages: 0 }
    }

    pub(super) const fn as_slice(&self) -> &[u8] {
        self.bytes.split_at(self.length as usize).0
    }

    /// How many messages there are; the last one has this number, the first one has 1.
    pub(super) const fn messages(&self) -> u8 {
        self.messages
    }

    pub(super) const fn put(&mut self, bytes: &[u8]) {
        let mut at = 0;
        while at < bytes.len() {
            self.bytes[self.length as usize] = bytes[at];
            self.length += 1;
            at += 1;
        }
    }

    /// The head of the next message; what follows is in it until [`Self::end_message`].
    pub(super) const fn message(&mut self, kind: u16, flags: u16) -> Open {
        let open = Open(self.length);
        self.messages += 1;
        self.put(&[0; 4]);
        self.put(&kind.to_ne_bytes());
        self.put(&(flags | REQUEST).to_ne_bytes());
        self.put(&(self.messages as u32).to_ne_bytes());
        // From whom: the kernel knows.
        self.put(&[0; 4]);
        open
    }

    pub(super) const fn end_message(&mut self, open: Open) {
        let length = ((self.length - open.0) as u32).to_ne_bytes();
        self.overwrite(open.0, &length);
    }

    pub(super) const fn attribute(&mut self, kind: u16, value: &[u8]) {
        let open = self.head(kind);
        self.put(value);
        self.end(open);
        while !self.length.is_multiple_of(4) {
            self.put(&[0]);
        }
    }

    /// An attribute of attributes, until [`Self::end`].
    pub(super) const fn nested(&mut self, kind: u16) -> Open {
        self.head(kind | NESTED)
    }

    const fn head(&mut self, kind: u16) -> Open {
        let open = Open(self.length);
        self.put(&[0; 2]);
        self.put(&kind.to_ne_bytes());
        open
    }

    pub(super) const fn end(&mut self, open: Open) {
        let length = (self.length - open.0).to_ne_bytes();
        self.overwrite(open.0, &length);
    }

    const fn overwrite(&mut self, at: u16, bytes: &[u8]) {
        let mut index = 0;
        while index < bytes.len() {
            self.bytes[at as usize + index] = bytes[index];
            index += 1;
        }
    }
}
