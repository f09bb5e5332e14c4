use super::*;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

async fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let connecting = TcpStream::connect(listener.local_addr().unwrap());
    let (ours, theirs) = tokio::join!(connecting, listener.accept());
    (ours.unwrap(), theirs.unwrap().0)
}

/// Counts, and lets through as much as is said.
#[derive(Default)]
struct Counter {
    sent: Cell<u64>,
    received: Cell<u64>,
    most: Option<u64>,
}

impl Meter for Counter {
    fn sent(&self, bytes: u64) -> bool {
        self.sent.set(self.sent.get() + bytes);
        self.most.is_none_or(|most| self.sent.get() < most)
    }

    fn received(&self, bytes: u64) -> bool {
        self.received.set(self.received.get() + bytes);
        true
    }
}

/// Bytes in which no place looks like another one.
fn noise(length: usize) -> Vec<u8> {
    let mut state = 1_u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state.to_be_bytes()[0]
    };
    (0..length).map(|_| next()).collect()
}

#[tokio::test]
async fn everything_arrives_in_both_directions_and_so_do_the_ends() {
    // Less than is copied at once, as much as is copied, and much more.
    for length in [0, 1, 70_000, 256 << 10, 5 << 20] {
        let ((mut client, inside), (outside, mut host)) = (pair().await, pair().await);
        let (counter, pipes) = (Counter::default(), Pipes::default());
        let (up, down) = (noise(length), noise(length / 2 + 3));
        let (end, (), ()) = tokio::join!(
            relay(inside, outside, b"first ", &counter, &pipes),
            async {
                // Says all, closes its half, and hears the answer then.
                client.write_all(&up).await.unwrap();
                client.shutdown().await.unwrap();
                let mut got = Vec::new();
                client.read_to_end(&mut got).await.unwrap();
                assert!(got == down);
            },
            async {
                let mut got = Vec::new();
                host.read_to_end(&mut got).await.unwrap();
                assert!(got.strip_prefix(b"first ") == Some(&up[..]));
                host.write_all(&down).await.unwrap();
                host.shutdown().await.unwrap();
            }
        );
        assert!(matches!(end, End::Done), "{end:?}");
        assert_eq!(counter.sent.get(), u64::try_from(length + 6).unwrap());
        assert_eq!(counter.received.get(), u64::try_from(down.len()).unwrap());
    }
}

#[tokio::test]
async fn who_breaks_off_breaks_off_both() {
    for length in [10, 1 << 20] {
        let ((mut client, inside), (outside, mut host)) = (pair().await, pair().await);
        let (counter, pipes) = (Counter::default(), Pipes::default());
        let bytes = noise(length);
        let (end, ()) = tokio::join!(relay(inside, outside, &[], &counter, &pipes), async {
            host.write_all(&bytes).await.unwrap();
            let mut got = vec![0; length];
            client.read_exact(&mut got).await.unwrap();
            reset(host);
            let error = client.read(&mut got).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::ConnectionReset);
        });
        assert!(matches!(end, End::Broken(_)), "{end:?}");
    }
}

#[tokio::test]
async fn who_has_spent_everything_is_reset() {
    let ((mut client, inside), (outside, mut host)) = (pair().await, pair().await);
    let counter = Counter { most: Some(1 << 20), ..Counter::default() };
    let pipes = Pipes::default();
    let (end, (), got) = tokio::join!(
        relay(inside, outside, &[], &counter, &pipes),
        async {
            let bytes = noise(64 << 10);
            while client.write_all(&bytes).await.is_ok() {}
        },
        async {
            let mut got = vec![0; 64 << 10];
            let mut total = 0;
            loop {
                match host.read(&mut got).await {
                    Ok(length @ 1..) => total += length,
                    _ => break total,
                }
            }
        }
    );
    assert!(matches!(end, End::Spent), "{end:?}");
    // What was under way in one go still came.
    assert!(got < 3 << 20, "{got}");
}

#[tokio::test(start_paused = true)]
async fn silence_ends_it() {
    let ((_client, inside), (outside, _host)) = (pair().await, pair().await);
    let end = relay(inside, outside, &[], &Counter::default(), &Pipes::default()).await;
    assert!(matches!(end, End::Idle), "{end:?}");
}

#[tokio::test]
async fn what_is_dropped_in_between_is_reset() {
    for is_begun in [false, true] {
        let ((mut client, inside), (outside, mut host)) = (pair().await, pair().await);
        let (counter, pipes) = (Counter::default(), Pipes::default());
        host.write_all(b"half of it").await.unwrap();
        let mut got = [0; 10];
        {
            let relayed = relay(inside, outside, &[], &counter, &pipes);
            if is_begun {
                tokio::select! {
                    _ = relayed => panic!("it goes on"),
                    _ = client.read_exact(&mut got) => assert_eq!(&got, b"half of it"),
                }
            }
        }
        for stream in [&mut client, &mut host] {
            let error = stream.read(&mut got).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::ConnectionReset);
        }
    }
}
