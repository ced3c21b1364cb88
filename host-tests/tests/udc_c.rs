//! Debian's kernel 6.1's own drivers/usb/chipidea/udc.c as the driver, held against everything and against our port of it. The
//! sources are the user's: `pool/bridge/sources --headers` brings them, and `cargo test -p scenarios --test udc_c --
//! --ignored` runs this.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use c_bridge::{BuildError, Options, cache_folder};
use kernel_udc::{OpenError, UdcFile};
use scenarios::{
    Bench, CheckOptions, Driver, Report, Run, Scenario, Status, UDC_C_LIMITS, Verdict, check, kernel_driver, policy,
    scenario,
};

const UDC: &str = "drivers/usb/chipidea/udc.c";

/// A folder that `pool/bridge/sources --headers` brings.
fn brought(name: &str) -> PathBuf {
    let folder = cache_folder().expect("a cache folder").join(name);
    assert!(folder.is_dir(), "{} is not there: run pool/bridge/sources --headers", folder.display());
    folder
}

fn headers() -> PathBuf {
    brought("linux-headers/6.1")
}

fn udc_c() -> Driver {
    static FILE: OnceLock<UdcFile> = OnceLock::new();
    let open = || UdcFile::open(&brought("linux/6.1"), Some(&headers()), &Options::default());
    kernel_driver("udc.c", FILE.get_or_init(|| open().unwrap_or_else(|error| panic!("{error}"))))
}

fn checked(driver: Driver, pool: &str) -> Report {
    let pools = vec![policy::by_name(pool).expect("a pool")];
    let options = CheckOptions { pools, driver: Some(driver), excuse: false, ..CheckOptions::default() };
    let report = check(&options, &|_, _| {}).expect("a bench");
    assert!(report.panics.is_empty(), "{:?}", report.panics);
    report
}

/// Scenarios that the driver under test runs in.
fn scenarios() -> impl Iterator<Item = Box<dyn Scenario>> {
    scenario::table().into_iter().filter(|scenario| scenario.client().is_none())
}

fn limited(scenario: &dyn Scenario) -> bool {
    UDC_C_LIMITS.iter().any(|limit| limit.scenario == scenario.name())
}

#[test]
#[ignore = "needs kernel sources and headers: pool/bridge/sources --headers"]
fn it_fails_on_no_sound_pool_beyond_its_declared_limits() {
    for pool in ["linked", "index-stack", "page-list"] {
        let report = checked(udc_c(), pool);
        for row in &report.rows {
            assert!(row.status <= Status::Declared, "{pool}: {}: {:?}", row.scenario, row.failures);
            let limit = UDC_C_LIMITS.iter().find(|limit| limit.scenario == row.scenario);
            assert_eq!(row.status == Status::Declared, limit.is_some(), "{pool}: {}", row.scenario);
        }
        assert_eq!(report.rows.len(), scenarios().count() + 1, "every scenario of the driver's, and the contract");
    }
}

#[test]
#[ignore = "needs kernel sources and headers: pool/bridge/sources --headers"]
fn descending_blocks_break_it_as_they_break_the_port() {
    let bench = Bench::new().pool(policy::by_name("linked-descending").expect("a pool"));
    for endpoints in [4, 8, 16] {
        let run = |bench: Bench| bench.endpoints(endpoints).run("bootloader-to-ethernet").expect("a bench");
        let (port, kernels) = (run(bench.clone()), run(bench.clone().built_in_driver(udc_c())));
        let error = |run: &Run| run.failure.as_ref().map(|failure| failure.error.clone());
        assert_eq!(error(&kernels).as_deref(), Some("device descriptor read/64, error -110"));
        assert_eq!(kernels.verdict, Verdict::ClientAssumptionViolated);
        assert_eq!((error(&port), port.verdict, port.reason()), (error(&kernels), kernels.verdict, kernels.reason()));
        assert_eq!(port.log, kernels.log, "{endpoints} endpoints");
    }
}

/// Everything that happened, in the device's names: registers, descriptors, packets, the host's log.
fn traced(bench: Bench, scenario: &dyn Scenario) -> Vec<String> {
    let (_, trace) = bench.trace_scenario(scenario).expect("a bench");
    trace.iter().map(|line| format!("{:?} {} {}", line.header.at, line.actor, line.symbolic)).collect()
}

/// The port's trace, and the kernel's.
fn both(bench: &Bench, scenario: &dyn Scenario) -> (Vec<String>, Vec<String>) {
    (traced(bench.clone(), scenario), traced(bench.clone().built_in_driver(udc_c()), scenario))
}

/// How many lines are the same, and what follows in each.
fn split<'a>(port: &'a [String], kernels: &'a [String]) -> (usize, &'a [String], &'a [String]) {
    let same = port.iter().zip(kernels).take_while(|(one, other)| one == other).count();
    (same, &port[same..], &kernels[same..])
}

fn assert_same(bench: &Bench, scenario: &dyn Scenario, what: &str) {
    let (port, kernels) = both(bench, scenario);
    let (same, port, kernels) = split(&port, &kernels);
    let (port, kernels) = (port.first(), kernels.first());
    assert!(
        port.is_none() && kernels.is_none(),
        "{what}: after {same} lines the port has {port:?}, and the kernel's own {kernels:?}"
    );
    assert!(same > 100, "{what}: {same} lines are no test");
}

/// Line by line: what the driver did to registers and when, what the device found in memory, what went over the wire.
#[test]
#[ignore = "needs kernel sources and headers: pool/bridge/sources --headers"]
fn a_device_cannot_tell_it_from_the_port() {
    for scenario in scenarios().filter(|scenario| !limited(&**scenario)) {
        assert_same(&Bench::new().endpoints(4), &*scenario, scenario.name());
    }
    for name in ["bootloader-to-ethernet", "suspend", "stall", "fail-alloc"] {
        let scenario = scenario::by_name(name).expect("a scenario");
        assert_same(&Bench::new().lpm(true), &*scenario, &format!("{name}, 16 endpoints, LPM map"));
        let backward =
            Bench::new().endpoints(8).speed(scenarios::Speed::Full).page_order(scenarios::PageOrder::Backward);
        assert_same(
            &backward.pool(policy::by_name("page-list").expect("a pool")),
            &*scenario,
            &format!("{name}, page-list"),
        );
    }
    let descending = Bench::new().pool(policy::by_name("linked-descending").expect("a pool"));
    assert_same(&descending, &*scenario::by_name("ecm").expect("a scenario"), "ecm, linked-descending");
}

/// Expected differences, each where the port says that it differs from ci_hdrc.
#[test]
#[ignore = "needs kernel sources and headers: pool/bridge/sources --headers"]
fn where_a_device_can_tell_it_is_a_declared_limit() {
    // At, for the times differ by what the schedule does.
    let events = |lines: &[String]| -> Vec<String> {
        lines.iter().map(|line| line.split_once(' ').map_or("", |(_, event)| event).to_owned()).collect()
    };
    let difference = |name: &str| {
        let (port, kernels) = both(&Bench::new().endpoints(4), &*scenario::by_name(name).expect("a scenario"));
        let (same, port, kernels) = split(&port, &kernels);
        assert!(same > 400, "{name}: {same}");
        (events(port), events(kernels))
    };
    // _gadget_stop_activity frees the request of a status stage that is under way, which does not work. The port takes it back,
    // and flushes endpoint 0 for it; then both end with OTGSC.
    let (port, kernels) = difference("setup-abort");
    let flush = [
        "driver write ENDPTFLUSH = 00000001",
        "driver read  ENDPTFLUSH = 00000000",
        "driver read  ENDPTSTAT = 00000000",
    ];
    assert_eq!(port[..3], flush);
    assert_eq!(port[3..], kernels);
    // ep_dequeue leaves what is behind the request unprimed. The port primes it again.
    let (port, kernels) = difference("dequeue");
    assert_eq!(port[..2], ["driver write ENDPTPRIME = 00020000", "device read  ep1 IN dQH next = [ep1 IN dTD 1]"]);
    assert_eq!(kernels[0], "driver read  ENDPTPRIME = 00000000", "ep_queue of the next request");
    // No line of udc.c looks at short_not_ok: the scenario goes on with the port, and ends with udc.c, whose driver is stopped.
    let (port, kernels) = difference("short-packets");
    assert_eq!(port[0], "driver write ENDPTPRIME = 00020000", "the next step's");
    assert_eq!(
        kernels[..3],
        ["driver read  USBCMD = 00010001", "driver write USBCMD = 00010000", "driver write USBINTR = 00000000"]
    );
    let traffic = kernels.iter().filter(|event| !event.starts_with("driver "));
    assert_eq!(traffic.collect::<Vec<_>>(), [""; 0], "nothing but the end");
}

/// A tree with the user's udc.c and one change, and a cache of its own.
struct Changed(tempfile::TempDir);

impl Changed {
    fn new(from: &str, to: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let place = folder.path().join(UDC);
        let place = place.parent().expect("a folder");
        fs::create_dir_all(place).expect("made");
        for entry in fs::read_dir(brought("linux/6.1").join(UDC).parent().expect("a folder")).expect("there") {
            let path = entry.expect("a file").path();
            fs::copy(&path, place.join(path.file_name().expect("a name"))).expect("copied");
        }
        let text = fs::read_to_string(folder.path().join(UDC)).expect("there");
        assert_eq!(text.matches(from).count(), 1, "6.1 is not as it was: {from}");
        fs::write(folder.path().join(UDC), text.replace(from, to)).expect("written");
        Self(folder)
    }

    fn open(&self) -> Result<UdcFile, OpenError> {
        let cache = Some(self.0.path().join("cache"));
        UdcFile::open(self.0.path(), Some(&headers()), &Options { cache, ..Options::default() })
    }
}

/// A line that is executed with each SETUP.
const EACH_SETUP: &str = "\ttype = req.bRequestType;\n";

#[test]
#[ignore = "needs kernel sources and headers: pool/bridge/sources --headers"]
fn what_it_does_wrong_ends_the_driver_and_is_named() {
    let after = |line: &str| format!("{EACH_SETUP}{line}\n");
    for (from, to, words) in [
        (EACH_SETUP, after("*(volatile int *)16 = type;"), "udc_irq did not return: a fault (SIGSEGV) at 0x10, in "),
        (EACH_SETUP, after("for (;;) cpu_relax();"), "udc_irq did not return: it does not come to an end"),
        (
            EACH_SETUP,
            after("while (hw_read(ci, OP_USBMODE, USBMODE_CM)) ;"),
            "udc_irq did not return: it reads registers for ever",
        ),
        (EACH_SETUP, after("BUG_ON(type != 0x7f);"), "udc_irq did not return: BUG: type != 0x7f at udc.c:"),
        (
            "\t\tspin_unlock(&ci->lock);\n\t\terr = ci->driver->setup",
            "\t\terr = ci->driver->setup".to_owned(),
            "ep_queue did not return: deadlock: a spinlock is taken a second time",
        ),
        (
            "\tkfree(pending);",
            "\tkfree(pending);\n\tkfree(pending);".to_owned(),
            "kfree of an object that is free already",
        ),
    ] {
        let changed = Changed::new(from, &to);
        let file = changed.open().unwrap_or_else(|error| panic!("{to}: {error}"));
        let bench = Bench::new().built_in_driver(kernel_driver("udc.c", &file));
        let run = bench.run("bootloader-to-ethernet").expect("a bench");
        let error = run.failure.as_ref().map_or("", |failure| &failure.error);
        assert!(run.verdict == Verdict::Inconclusive && error.contains(words), "{to}: {:?} {error}", run.verdict);
        assert_eq!(run.board_log.iter().filter(|line| line.contains(words)).count(), 1, "{to}: {:?}", run.board_log);
    }
    let sound = Bench::new().built_in_driver(udc_c()).run("bootloader-to-ethernet").expect("a bench");
    assert_eq!(sound.verdict, Verdict::NoFailureFound, "the program goes on");
}

#[test]
#[ignore = "needs kernel sources and headers: pool/bridge/sources --headers"]
fn what_does_not_compile_is_told_in_the_compilers_words() {
    let error = |to: &str| Changed::new(EACH_SETUP, &format!("{EACH_SETUP}{to}\n")).open().err().expect("an error");
    let broken = error("this is no C;");
    assert!(broken.is_the_files() && broken.to_string().contains("udc.c:"), "{broken}");
    let missing = error("extern int usb_nothing_like_it(void); usb_nothing_like_it();");
    let OpenError::File(BuildError::Compile { missing: names, .. }) = &missing else { panic!("{missing}") };
    assert_eq!(names, &["usb_nothing_like_it"]);
    assert!(missing.is_the_files());
    let absent = UdcFile::open(Path::new("nowhere"), Some(&headers()), &Options::default()).err().expect("an error");
    assert!(absent.is_the_files(), "{absent}");
    let tree = brought("linux/6.1");
    for (headers, words) in
        [(None, "none are named"), (Some(tree.as_path()), "there is no include/generated/autoconf.h")]
    {
        let error = UdcFile::open(&tree, headers, &Options::default()).err().expect("an error");
        assert!(!error.is_the_files() && error.to_string().contains(words), "{error}");
    }
}
