use super::*;
use proptest::prelude::*;

/// Knows `allowed.example` alone.
struct One {
    asked: Vec<String>,
}

impl Names for One {
    fn address(&mut self, name: &Name) -> Result<Standing, String> {
        self.asked.push(name.to_string());
        let is_known = name.as_str() == "allowed.example";
        let standing = Standing { address: ADDRESS, seconds: 60 };
        is_known.then_some(standing).ok_or_else(|| format!("no rule allows {name}"))
    }

    fn name(&self, address: Ipv4Addr) -> Option<Name> {
        (address == ADDRESS).then(|| "allowed.example".parse().unwrap())
    }
}

const ADDRESS: Ipv4Addr = Ipv4Addr::new(11, 0, 0, 1);

fn question(name: rr::Name, kind: RecordType) -> Message {
    let mut message = Message::new(7, MessageType::Query, OpCode::Query);
    message.metadata.recursion_desired = true;
    message.add_query(Query::query(name, kind));
    message.edns = Some(Edns::new());
    message
}

fn name(text: &str) -> rr::Name {
    rr::Name::from_ascii(text).unwrap()
}

fn ask_with(message: &Message, transport: Transport) -> (Message, Vec<String>) {
    let mut names = One { asked: Vec::new() };
    let sent = answer(&message.to_vec().unwrap(), transport, &mut names).unwrap();
    (Message::from_vec(&sent).unwrap(), names.asked)
}

fn ask(text: &str, kind: RecordType) -> Message {
    let (reply, _) = ask_with(&question(name(text), kind), Transport::Udp);
    assert_eq!((reply.metadata.id, reply.metadata.message_type), (7, MessageType::Response));
    assert!(reply.metadata.recursion_desired && reply.metadata.recursion_available);
    assert_eq!(reply.queries, [Query::query(name(text), kind)]);
    reply
}

fn reason(reply: &Message) -> Option<String> {
    let options = reply.edns.as_ref()?.options();
    match options.get(EXTENDED_ERROR.into())? {
        EdnsOption::Unknown(_, bytes) => {
            assert_eq!(bytes[..2], BLOCKED.to_be_bytes());
            Some(String::from_utf8(bytes[2..].to_vec()).unwrap())
        }
        other => panic!("{other:?}"),
    }
}

fn data(reply: &Message) -> Vec<String> {
    assert_eq!(reply.metadata.response_code, ResponseCode::NoError);
    reply.answers.iter().map(|record| record.data.to_string()).collect()
}

#[test]
fn an_allowed_name_has_its_address_and_nothing_else() {
    assert_eq!(data(&ask("allowed.example.", RecordType::A)), ["11.0.0.1"]);
    // As some resolvers write it, to be harder to deceive.
    assert_eq!(data(&ask("aLLowed.exaMPLE.", RecordType::A)), ["11.0.0.1"]);
    for kind in
        [RecordType::AAAA, RecordType::HTTPS, RecordType::SVCB, RecordType::TXT, RecordType::MX]
    {
        let reply = ask("allowed.example.", kind);
        assert!(data(&reply).is_empty() && reply.authorities.len() == 1, "{kind}");
        assert_eq!(reason(&reply), None);
    }
}

#[test]
fn a_refused_name_does_not_exist_and_says_why() {
    for kind in [RecordType::A, RecordType::AAAA, RecordType::TXT, RecordType::ANY] {
        let reply = ask("secret.evil.example.", kind);
        assert_eq!(reply.metadata.response_code, ResponseCode::NXDomain);
        assert_eq!(reason(&reply).unwrap(), "no rule allows secret.evil.example");
        let RData::SOA(soa) = &reply.authorities[0].data else { panic!("{reply:?}") };
        assert_eq!(soa.minimum, NOTHING_TTL);
    }
    // Who does not know extended errors gets none.
    let mut plain = question(name("evil.example."), RecordType::A);
    plain.edns = None;
    let (reply, _) = ask_with(&plain, Transport::Udp);
    assert_eq!((reply.metadata.response_code, reply.edns), (ResponseCode::NXDomain, None));
}

#[test]
fn names_that_could_be_taken_for_others_are_never_asked_for() {
    let labels = |labels: &[&[u8]]| rr::Name::from_labels(labels.to_vec()).unwrap();
    for odd in [
        labels(&[b"allowed.example"]),
        labels(&[b"evil", b"x\0", b"allowed", b"example"]),
        labels(&[b"al lowed", b"example"]),
        labels(&[b"allowed", b"example", b"1"]),
        labels(&[b"\xff\xfe", b"example"]),
        rr::Name::root(),
    ] {
        let (reply, asked) = ask_with(&question(odd, RecordType::A), Transport::Udp);
        assert_eq!(reply.metadata.response_code, ResponseCode::NXDomain);
        assert!(asked.is_empty() && reason(&reply).is_some(), "{asked:?}");
    }
}

#[test]
fn the_sandboxs_own_name_leads_to_itself() {
    assert_eq!(data(&ask("localhost.", RecordType::A)), ["127.0.0.1"]);
    assert_eq!(data(&ask("app.localhost.", RecordType::AAAA)), ["::1"]);
    let (_, asked) = ask_with(&question(name("localhost."), RecordType::A), Transport::Udp);
    assert!(asked.is_empty());
}

#[test]
fn addresses_lead_back_to_names() {
    assert_eq!(data(&ask("1.0.0.11.in-addr.arpa.", RecordType::PTR)), ["allowed.example."]);
    for other in ["2.0.0.11.in-addr.arpa.", "8.8.8.8.in-addr.arpa.", "0.11.in-addr.arpa."] {
        let reply = ask(other, RecordType::PTR);
        assert_eq!(reply.metadata.response_code, ResponseCode::NXDomain, "{other}");
    }
}

#[test]
fn what_is_no_question_gets_no_answer_of_ours() {
    let asked = question(name("allowed.example."), RecordType::A);
    let code = |message: &Message| ask_with(message, Transport::Udp).0.metadata.response_code;
    let mut none = asked.clone();
    none.queries.clear();
    assert_eq!(code(&none), ResponseCode::FormErr);
    let mut many = asked.clone();
    many.queries = vec![Query::query(name(&"long-label.".repeat(20)), RecordType::A); 8];
    let mut names = One { asked: Vec::new() };
    let told = answer(&many.to_vec().unwrap(), Transport::Udp, &mut names).unwrap();
    let told = (told.len(), Message::from_vec(&told).unwrap().metadata.response_code);
    assert!(told.0 < 100 && told.1 == ResponseCode::FormErr && names.asked.is_empty(), "{told:?}");
    let mut update = asked.clone();
    update.metadata.op_code = OpCode::Notify;
    assert_eq!(code(&update), ResponseCode::NotImp);
    let mut newer = asked.clone();
    newer.edns.as_mut().unwrap().set_version(1);
    // The number of BADVERS is that of BADSIG too.
    assert_eq!(u16::from(code(&newer)), 16);
    let mut chaos = asked.clone();
    chaos.queries[0].set_query_class(DNSClass::CH);
    assert_eq!(code(&chaos), ResponseCode::NXDomain);
    let mut names = One { asked: Vec::new() };
    let mut answered = asked.clone();
    answered.metadata.message_type = MessageType::Response;
    for silent in [answered.to_vec().unwrap(), Vec::new(), vec![0; 11], vec![0xff; 40]] {
        assert_eq!(answer(&silent, Transport::Udp, &mut names), None);
    }
    let mut broken = asked.to_vec().unwrap();
    broken.truncate(20);
    let told = Message::from_vec(&answer(&broken, Transport::Udp, &mut names).unwrap()).unwrap();
    assert_eq!((told.metadata.id, told.metadata.response_code), (7, ResponseCode::FormErr));
}

proptest! {
    #[test]
    fn no_bytes_do_harm_and_no_answer_is_longer_than_there_is_room(
        mut bytes in prop::collection::vec(any::<u8>(), 0..600), is_query: bool,
    ) {
        if let (true, Some(flags)) = (is_query, bytes.get_mut(2)) {
            *flags &= 0x07;
        }
        let mut names = One { asked: Vec::new() };
        if let Some(sent) = answer(&bytes, Transport::Udp, &mut names) {
            prop_assert!(sent.len() <= usize::from(UDP_BYTES_MAX));
            let reply = Message::from_vec(&sent).unwrap();
            prop_assert_eq!(reply.metadata.id.to_be_bytes(), [bytes[0], bytes[1]]);
        }
    }

    #[test]
    fn long_names_have_answers_with_room(labels in prop::collection::vec("[a-z]{1,60}", 1..4)) {
        let mut message = question(name(&format!("{}.", labels.join("."))), RecordType::A);
        message.edns.as_mut().unwrap().set_max_payload(100);
        let sent = answer(&message.to_vec().unwrap(), Transport::Udp, &mut One { asked: Vec::new() });
        prop_assert!(sent.unwrap().len() <= usize::from(UDP_BYTES_ALWAYS));
    }
}
