//! A home of several layers: what is below stays as it is, whoever it belongs to.

use super::{Host, OUTSIDE, OUTSIDE_ROOT, each, octets, text};
use atoll_spawner::order::{Ids, Layers, Lower, Order, Overlay, Owners};
use atoll_testkit::run::User;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, chown};
use std::path::{Path, PathBuf};

/// First id of another sandbox of root's.
const OTHERS: u32 = 90_000;

/// The block that all ids of a sandbox are in.
const BLOCK: u32 = 1024;

impl Host {
    /// Gives a tree to the user of a sandbox whose ids begin with `first`.
    fn give_all(&self, path: &Path, first: u32) {
        match self.user {
            User::Root => {
                chown(path, Some(first + 1000), Some(first + 1000)).unwrap();
                let is_directory = path.symlink_metadata().unwrap().is_dir();
                for entry in fs::read_dir(path).ok().into_iter().flatten().filter(|_| is_directory)
                {
                    self.give_all(&entry.unwrap().path(), first);
                }
            }
            User::Ordinary => self.user.give(path),
        }
    }

    /// An order whose home is `count` layers and one above.
    fn layered(&self, name: &str, count: usize) -> (Order, PathBuf) {
        let mut order = self.order(name);
        let state = self.dir.path().join(name);
        let mut lowers = Vec::new();
        for index in 0..count {
            let path = state.join(format!("below-{index}"));
            fs::create_dir_all(path.join("directory")).unwrap();
            fs::write(path.join("topmost"), format!("{index}\n")).unwrap();
            fs::write(path.join(format!("directory/of-{index}")), "").unwrap();
            // The lowest one was made by somebody else.
            let is_others = index == 0 && self.user == User::Root;
            self.give_all(&path, if is_others { OTHERS } else { OUTSIDE_ROOT });
            let ids = Ids { inside: OTHERS, outside: OUTSIDE_ROOT, count: BLOCK };
            let owners = if is_others { Owners::Moved(ids) } else { Owners::Own };
            lowers.push(Lower { path: octets(&path), owners });
        }
        let [upper, work] = ["home", "home-work"].map(|name| state.join(name));
        fs::create_dir(&work).unwrap();
        if self.user == User::Ordinary {
            self.user.give(&work);
        }
        let layers = Layers { lowers, upper: octets(&upper), work: octets(&work) };
        order.overlays = vec![Overlay { layers, at: text("/home/user") }];
        order.binds.clear();
        (order, state)
    }
}

#[test]
fn a_home_of_layers_is_one_directory_that_is_written_above() {
    each(|host| {
        let (order, state) = host.layered("one", 3);
        let sandbox = host.spawn(&order);
        assert_eq!(
            sandbox.sh("cat topmost; ls directory; stat -c %u:%g directory/of-0 directory/of-2"),
            "2\nof-0\nof-1\nof-2\n1000:1000\n1000:1000\n"
        );
        let change = "echo mine > topmost; rm directory/of-0; echo new > directory/new; \
                      echo more >> directory/of-1; chmod 600 directory/of-1; ls directory";
        assert_eq!(sandbox.sh(change), "new\nof-1\nof-2\n");
        assert_eq!(fs::read_to_string(state.join("below-2/topmost")).unwrap(), "2\n");
        assert_eq!(fs::read_to_string(state.join("below-1/directory/of-1")).unwrap(), "");
        assert!(state.join("below-0/directory/of-0").exists());
        assert_eq!(fs::read_to_string(state.join("home/topmost")).unwrap(), "mine\n");
        if host.user == User::Root {
            let uid = |path: &str| state.join(path).metadata().unwrap().uid();
            assert_eq!(
                (uid("home/directory/of-1"), uid("below-0/topmost")),
                (OUTSIDE, OTHERS + 1000)
            );
        }
    });
}

#[test]
fn there_may_be_many_layers() {
    each(|host| {
        let (order, _) = host.layered("one", 60);
        let sandbox = host.spawn(&order);
        assert_eq!(sandbox.sh("cat topmost; ls directory | wc -l"), "59\n60\n");
    });
}

/// Only root's overlay can: an ordinary user's says `EXDEV`, and mv(1) copies then.
#[test]
fn a_directory_of_a_layer_below_gets_another_name() {
    each(|host| {
        let (order, state) = host.layered("one", 2);
        let sandbox = host.spawn(&order);
        let rename = "import os\ntry:\n os.rename('directory', 'other')\n print('renamed')\n\
                      except OSError as error: print(error.errno)";
        let renamed = sandbox.sh(&format!("python3 -c \"{rename}\""));
        let expected = if host.user == User::Root { "renamed\n" } else { "18\n" };
        assert_eq!(renamed, expected);
        let moved = sandbox.sh("test -d other || mv directory other; ls other; ls");
        assert_eq!(moved, "of-0\nof-1\nother\ntopmost\n");
        assert!(state.join("below-0/directory/of-0").exists());
    });
}
