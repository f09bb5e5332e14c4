//! Java, whose runtimes keep a store of certificates of their own.

use super::ways::Ways;
use super::{atoll, each};
use atoll_testkit::run::Ran;
use atoll_testkit::skip::is_installed;

const SOURCE: &str = "
import java.net.URI;
import java.net.http.*;
public class T { public static void main(String[] places) throws Exception {
    var client = HttpClient.newHttpClient();
    for (var place : places) {
        var answer = client.send(HttpRequest.newBuilder(URI.create(place)).build(),
            HttpResponse.BodyHandlers.ofString());
        System.out.print(answer.statusCode() + \" \" + answer.body());
    }
} }";

#[test]
fn java_trusts_whom_the_rest_does() {
    if !is_installed("javac", "work-java") {
        return;
    }
    each(|project| {
        let ways = Ways::new();
        project.write("T.java", SOURCE);
        let run = ways.run_sh(project, "/ok/x", "java T.java $1 $2");
        assert_eq!(run.stdout(), "200 GET /ok/x\n".repeat(2), "{}", run.text());
        // What the machine trusts is trusted as well, where the caller names nothing else.
        let mut command = atoll(&ways.internet, project, &ways.flags());
        command.env_remove("SSL_CERT_FILE");
        let script = "keytool -list -cacerts -storepass changeit | grep -c trustedCertEntry";
        let run = Ran(command.args(["--", "sh", "-c", script]).output().unwrap());
        let without = project.bare_sh(script);
        let count = |ran: &Ran| ran.stdout().trim().parse::<u32>().expect("a number");
        assert_eq!(count(&run), count(&without) + 1, "{}", run.text());
    });
}
