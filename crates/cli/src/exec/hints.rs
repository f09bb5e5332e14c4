//! What a sandbox was refused on its way out while a command ran, said when that has ended.

use crate::denial::{Said, line};
use atoll_api::denial::{Denial, DenialProtocol};
use atoll_api::exec::Exec;
use atoll_client::Client;
use std::io::Write as _;

/// Lines at most.
const LINES_MAX: usize = 20;

/// How much later than the command began its time is taken to begin, at most: the answer that says
/// how long ago that was has been on its way.
const SLACK_MS: u64 = 20;

/// Says it on standard error, once for each rule and host. The server is told of the same once a
/// minute.
pub(super) async fn tell(client: &Client, sandbox: &str, exec: &Exec) {
    let ran_ms = exec.ended.as_ref().map_or(0, |ended| ended.duration_us.div_ceil(1000));
    let within_ms = exec.started_ago_ms.max(ran_ms).saturating_add(SLACK_MS);
    // The command has ended, and what it gave is said: who cannot have hints goes without.
    let Ok(page) = client.list_denials_within(sandbox, within_ms).await else { return };
    let mut told: Vec<Denial> = Vec::new();
    for denial in page.denials {
        let is_same = |known: &&mut Denial| {
            (&known.code, &known.host, known.port, &known.rule)
                == (&denial.code, &denial.host, denial.port, &denial.rule)
        };
        match told.iter_mut().find(is_same) {
            Some(known) => known.count += denial.count,
            None => told.push(denial),
        }
    }
    let mut text: String = told.iter().take(LINES_MAX).map(|one| said(one) + "\n").collect();
    if let Some(more) = told.len().checked_sub(LINES_MAX).filter(|more| *more > 0) {
        text += &format!("atoll: network: {more} more denials\n");
    }
    // A closed stderr leaves nobody to tell.
    std::io::stderr().write_all(text.as_bytes()).ok();
}

fn said(denial: &Denial) -> String {
    let is_name = denial.protocol == DenialProtocol::Dns;
    line(&Said {
        code: &denial.code,
        host: &denial.host,
        port: denial.port.filter(|_| !is_name),
        method: denial.method.as_deref(),
        path: denial.path.as_deref(),
        rule: denial.rule.as_deref(),
        message: &denial.message,
        next_step: &denial.next_step,
        count: denial.count,
    })
}
