//! A real `git bisect run` over a toy repository.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A repository in a folder of its own, removed at the end.
struct Toy(PathBuf);

impl Drop for Toy {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl Toy {
    fn new() -> Self {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("bisect-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).expect("a folder for the repository");
        let toy = Self(folder);
        toy.git(&["init", "--quiet", "--initial-branch=main"]);
        toy
    }

    fn git(&self, arguments: &[&str]) -> String {
        let mut git = Command::new("git");
        // Inside a hook git says where *its* repository is: this one must never touch another.
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("GIT_") {
                git.env_remove(name);
            }
        }
        let output = git
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_CONFIG_SYSTEM", "/dev/null")
            .args(["-c", "user.name=toy", "-c", "user.email=toy@example.com", "-c", "commit.gpgsign=false"])
            .args(["-c", "core.hooksPath=/dev/null"])
            .args(arguments)
            .current_dir(&self.0)
            .output()
            .expect("git is installed");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "git {arguments:?}: {text}{}", String::from_utf8_lossy(&output.stderr));
        text
    }

    /// Commits a tree whose file `pool` names the pool that this revision uses; `None`: it does not build.
    fn commit(&self, message: &str, pool: Option<&str>) -> String {
        let file = self.0.join("pool");
        match pool {
            Some(pool) => fs::write(&file, pool).expect("the file is written"),
            None => fs::remove_file(&file).expect("the file was there"),
        }
        self.git(&["add", "--all"]);
        self.git(&["commit", "--quiet", "--allow-empty", "--message", message]);
        self.git(&["rev-parse", "HEAD"]).trim().to_owned()
    }
}

#[test]
fn a_bisection_finds_the_commit_that_made_fresh_pages_descend() {
    let toy = Toy::new();
    let good = toy.commit("the old pool", Some("page-list"));
    toy.commit("a bitmap", Some("external-bitmap"));
    toy.commit("in the middle of a move", None);
    toy.commit("link blocks across pages, carefully", Some("linked"));
    let culprit = toy.commit("link blocks across pages, fast", Some("linked-descending"));
    toy.commit("something else", Some("linked-descending"));
    let bad = toy.commit("one more", Some("linked-descending"));

    toy.git(&["bisect", "start", &bad, &good]);
    let script = format!(
        r#"test -f pool || exit 125; exec "{}" check --quiet --scenario bootloader-to-ethernet --pool "$(cat pool)""#,
        env!("CARGO_BIN_EXE_poolproof")
    );
    let log = toy.git(&["bisect", "run", "sh", "-c", &script]);
    assert!(log.contains(&format!("{culprit} is the first bad commit")), "{log}");
}
