//! What a sandbox sees of a request, and a client of an answer.

use super::{Inside, Site, told};
use crate::support::{World, live};
use atoll_api::key::Scope;

#[test]
fn a_sandbox_sees_its_own_cookies_and_nothing_of_ours() {
    live(async {
        let inside = Inside::mirror().await;
        let site = Site::new(World::new(), inside.port).await;
        let key = site.server.with_key(Scope::Admin).key.unwrap();
        let bearer = format!("Bearer {key}");
        let headers = [
            ("cookie", "session=page; __atoll_session=ours"),
            ("x-api-key", key.as_str()),
            ("authorization", bearer.as_str()),
            ("x-forwarded-for", "6.6.6.6"),
            ("connection", "x-secret"),
            ("x-secret", "hop"),
            ("x-page", "kept"),
        ];
        let mirrored = site.ask(&site.host(), "/", &headers).await.json();
        assert_eq!(told(&mirrored, "cookie"), Some("session=page"));
        assert_eq!(told(&mirrored, "x-page"), Some("kept"));
        assert_eq!(told(&mirrored, "host"), Some(site.host().as_str()));
        assert_eq!(told(&mirrored, "x-forwarded-host"), Some(site.host().as_str()));
        assert_eq!(told(&mirrored, "x-forwarded-for"), Some("127.0.0.1"));
        assert_eq!(told(&mirrored, "connection"), Some("close"));
        for gone in ["x-api-key", "authorization", "x-secret"] {
            assert_eq!(told(&mirrored, gone), None, "{gone}");
        }
        let page = [("authorization", "Basic cGFnZTpw")];
        let mirrored = site.ask(&site.host(), "/", &page).await.json();
        assert_eq!(told(&mirrored, "authorization"), Some("Basic cGFnZTpw"));
    });
}

#[test]
fn by_path_no_cookie_goes_in_or_out() {
    live(async {
        let inside = Inside::mirror().await;
        let site = Site::new(World::new(), inside.port).await;
        let prefix = site.path().trim_end_matches('/').to_owned();
        let answer = site.ask("localhost:4000", &site.path(), &[("cookie", "other=app")]).await;
        let mirrored = answer.json();
        assert_eq!(told(&mirrored, "cookie"), None);
        assert_eq!(told(&mirrored, "x-forwarded-prefix"), Some(prefix.as_str()));
        let policy = answer.headers["content-security-policy"].to_str().unwrap();
        assert!(policy.starts_with("sandbox ") && !policy.contains("same-origin"), "{policy}");
        // Without its slash, links of the page would lead beside it.
        let bare = site.ask("localhost", &format!("{prefix}?a=1"), &[]).await;
        assert_eq!(
            (bare.status, &bare.headers["location"]),
            (308, &format!("{prefix}/?a=1").parse().unwrap())
        );
    });
}

#[test]
fn an_answer_sets_cookies_of_its_own_host_only() {
    live(async {
        let inside = Inside::says(
            "HTTP/1.1 302 Found\r\nSet-Cookie: a=1; Domain=localhost; Path=/\r\n\
             Set-Cookie: __atoll=ours\r\nLocation: /next\r\nAlt-Svc: h3=\":1\"\r\n\
             Connection: close, X-Hop\r\nX-Hop: 1\r\nContent-Length: 0\r\n\r\n",
        )
        .await;
        let site = Site::new(World::new(), inside.port).await;
        let answer = site.get("/").await;
        let cookies: Vec<_> = answer.headers.get_all("set-cookie").iter().collect();
        assert_eq!(cookies, ["a=1; Path=/"]);
        assert_eq!((answer.status, &answer.headers["location"]), (302, &"/next".parse().unwrap()));
        for gone in ["alt-svc", "x-hop"] {
            assert_eq!(answer.headers.get(gone), None, "{gone}");
        }
        let by_path = site.ask("localhost", &site.path(), &[]).await;
        assert_eq!(by_path.headers.get("set-cookie"), None);
        let location = by_path.headers["location"].to_str().unwrap();
        assert_eq!(location, format!("{}next", site.path()));
    });
}
