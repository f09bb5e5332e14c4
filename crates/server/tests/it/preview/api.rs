//! What the API says of ports, and connections to them.

use super::{Inside, Site, expose};
use crate::support::{World, live};
use atoll_api::key::Scope;
use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_tungstenite::client_async;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::{Error, Message};

#[test]
fn ports_are_listed_with_what_listens_and_what_is_exposed() {
    live(async {
        let world = World::new();
        world.guest.ports.lock().unwrap().extend([8080, 80, 8080]);
        let site = Site::new(world, 80).await;
        expose(&site.server, 5173, &json!({ "visibility": "public" })).await;
        let path = "/v1/sandboxes/web/ports";
        let listed = site.server.local().get(path).await.expect(200);
        assert_eq!(listed["ports"][0]["preview"], site.preview);
        let seen: Vec<_> = listed["ports"]
            .as_array()
            .unwrap()
            .iter()
            .map(|port| {
                let visibility = port["preview"]["visibility"].as_str().unwrap_or("none");
                (port["port"].as_u64().unwrap(), port["is_listening"] == true, visibility)
            })
            .collect();
        assert_eq!(seen, [(80, true, "private"), (5173, false, "public"), (8080, true, "none")]);
        // Who may only look could otherwise do what is behind the port.
        let token = site.preview["token"].as_str().unwrap();
        assert!(site.server.with_key(Scope::Run).get(path).await.text.contains(token));
        let shown = site.server.with_key(Scope::Read).get(path).await;
        assert!(shown.text.contains("\"preview\"") && !shown.text.contains(token), "{shown:?}");
        // A look wakes nobody.
        site.server.local().post("/v1/sandboxes/web/stop").await.expect(200);
        let asleep = site.server.local().get(path).await.expect(200);
        assert_eq!(asleep["ports"].as_array().unwrap().len(), 2);
        let state = site.server.local().get("/v1/sandboxes/web").await.expect(200);
        assert_eq!(state["state"], "stopped");
    });
}

#[test]
fn what_is_no_port_or_too_many_is_refused() {
    live(async {
        let site = Site::new(World::new(), 1).await;
        let local = site.server.local();
        for port in ["0", "65536", "080", "x", "-1"] {
            let path = format!("/v1/sandboxes/web/ports/{port}/expose");
            assert_eq!(local.json("POST", &path, &json!({})).await.code(), "invalid", "{port}");
        }
        let path = "/v1/sandboxes/web/ports/2/expose";
        for wrong in
            [json!({ "expires_in_ms": 0 }), json!({ "visibility": "all" }), json!({ "x": 1 })]
        {
            assert_eq!(local.json("POST", path, &wrong).await.code(), "invalid", "{wrong}");
        }
        for port in 2..=64 {
            expose(&site.server, port, &json!({})).await;
        }
        let path = "/v1/sandboxes/web/ports/65/expose";
        let full = local.json("POST", path, &json!({})).await;
        assert_eq!((full.code().as_str(), full.status.as_u16()), ("capacity", 429));
        assert_eq!(full.json()["error"]["details"]["limit"], "exposures_max");
    });
}

#[test]
fn a_port_is_connected_to_by_a_websocket_of_raw_bytes() {
    live(async {
        let inside = Inside::talks(async |mut stream: TcpStream, head| {
            stream.write_all(head.to_uppercase().as_bytes()).await.unwrap();
            let mut more = [0; 3];
            stream.read_exact(&mut more).await.unwrap();
            stream.write_all(&more).await.unwrap();
        })
        .await;
        let site = Site::new(World::new(), inside.port).await;
        let key = site.server.with_key(Scope::Run).key.unwrap();
        let url =
            format!("ws://{}/v1/sandboxes/web/ports/{}/connect", site.server.address, inside.port);
        let connect = async |protocols: &str| {
            let mut request = url.as_str().into_client_request().unwrap();
            request.headers_mut().insert("sec-websocket-protocol", protocols.parse().unwrap());
            let stream = TcpStream::connect(site.server.address).await.unwrap();
            client_async(request, stream).await
        };
        let protocols = format!("atoll.v1, atoll.key.{key}");
        let (mut socket, response) = connect(&protocols).await.unwrap();
        assert_eq!(response.headers()["sec-websocket-protocol"], "atoll.v1");
        let local = site.server.local();
        let holds = local.get("/v1/sandboxes/web").await.expect(200)["holds"].clone();
        assert_eq!(holds[0]["cause"]["kind"], "stream");
        let send = |text: &str| Message::Binary(text.as_bytes().to_vec().into());
        socket.send(send("ab")).await.unwrap();
        socket.send(send("c\r\n\r\n")).await.unwrap();
        socket.send(send("end")).await.unwrap();
        let mut got = Vec::new();
        let closed = loop {
            match socket.next().await.unwrap().unwrap() {
                Message::Binary(bytes) => got.extend_from_slice(&bytes),
                Message::Close(frame) => break frame.unwrap(),
                other => panic!("{other}"),
            }
        };
        assert_eq!((got.as_slice(), u16::from(closed.code)), (&b"ABC\r\n\r\nend"[..], 1000));
        // Text is no bytes of a port.
        let (mut socket, _) = connect(&protocols).await.unwrap();
        socket.send(Message::Text("x".into())).await.unwrap();
        let Some(Ok(Message::Close(Some(closed)))) = socket.next().await else { panic!() };
        assert_eq!(u16::from(closed.code), 1003);
        for protocols in ["atoll.v1", "atoll.v1, atoll.key.e2b_0"] {
            let Err(Error::Http(refused)) = connect(protocols).await else { panic!() };
            assert_eq!(refused.status().as_u16(), 401);
        }
        drop(inside);
        let Err(Error::Http(closed)) = connect(&protocols).await else { panic!() };
        assert_eq!(closed.status().as_u16(), 502);
    });
}
