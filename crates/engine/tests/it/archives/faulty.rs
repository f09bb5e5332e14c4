//! A store that does one thing wrong.

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::stream::BoxStream;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload,
    ObjectMeta, ObjectStore, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use std::fmt;
use std::sync::{Mutex, PoisonError};

/// What goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// It is not done, and fails.
    Before,
    /// It is done, and fails.
    After,
    /// A bit of what is read is another one.
    Flip,
    /// The last byte of what is read is missing.
    Cut,
    /// There are some more.
    Lengthen,
}

#[derive(Debug, Default)]
struct Armed {
    fault: Option<Fault>,
    left: usize,
    was_hit: bool,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Faulty {
    inner: InMemory,
    armed: Mutex<Armed>,
}

impl Faulty {
    pub(super) fn new() -> Self {
        Self { inner: InMemory::new(), armed: Mutex::default() }
    }

    /// Has the operation of that number from now on go wrong.
    pub(super) fn arm(&self, fault: Fault, number: usize) {
        let armed = Armed { fault: Some(fault), left: number, was_hit: false };
        *self.armed.lock().unwrap() = armed;
    }

    /// Has nothing go wrong any more; whether something did.
    pub(super) fn disarm(&self) -> bool {
        std::mem::take(&mut *self.armed.lock().unwrap()).was_hit
    }

    fn next(&self) -> Option<Fault> {
        let mut armed = self.armed.lock().unwrap_or_else(PoisonError::into_inner);
        let fault = armed.fault?;
        if armed.was_hit {
            return None;
        }
        if armed.left > 0 {
            armed.left -= 1;
            return None;
        }
        armed.was_hit = true;
        Some(fault)
    }
}

fn failed() -> Error {
    Error::Generic { store: "faulty", source: "it was told to fail".into() }
}

/// Does something, or not, as is to be.
async fn with<T>(fault: Option<Fault>, done: impl Future<Output = Result<T>>) -> Result<T> {
    match fault {
        Some(Fault::Before) => Err(failed()),
        Some(Fault::After) => {
            done.await?;
            Err(failed())
        }
        _ => done.await,
    }
}

impl fmt::Display for Faulty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Faulty")
    }
}

#[async_trait]
impl ObjectStore for Faulty {
    async fn put_opts(&self, at: &Path, with_it: PutPayload, how: PutOptions) -> Result<PutResult> {
        with(self.next(), self.inner.put_opts(at, with_it, how)).await
    }

    async fn put_multipart_opts(
        &self,
        at: &Path,
        how: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.inner.put_multipart_opts(at, how).await
    }

    async fn get_opts(&self, at: &Path, how: GetOptions) -> Result<GetResult> {
        let fault = self.next();
        let is_head = how.head;
        let found = with(fault, self.inner.get_opts(at, how)).await?;
        if is_head || fault.is_none() {
            return Ok(found);
        }
        let (meta, range, attributes) =
            (found.meta.clone(), found.range.clone(), found.attributes.clone());
        let mut bytes = found.bytes().await?.to_vec();
        match fault {
            Some(Fault::Flip) => {
                let middle = bytes.len() / 2;
                bytes[middle] ^= 1;
            }
            Some(Fault::Cut) => drop(bytes.pop()),
            Some(Fault::Lengthen) => bytes.extend([0; 100]),
            _ => {}
        }
        let stream = futures_util::stream::iter([Ok(Bytes::from(bytes))]).boxed();
        let payload = GetResultPayload::Stream(stream);
        Ok(GetResult { payload, meta, range, attributes, extensions: Default::default() })
    }

    fn delete_stream(
        &self,
        at: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        self.inner.delete_stream(at)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        match self.next() {
            Some(Fault::Before | Fault::After) => {
                futures_util::stream::iter([Err(failed())]).boxed()
            }
            _ => self.inner.list(prefix),
        }
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, how: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, how).await
    }
}
