//! What catches the mutants, as far as it takes no long runs: `poolproof mutants` is the rest.

use std::collections::BTreeSet;

use mutants::{How, Mutant, Options, Outcome, Report, table};
use pool::contract::Config;
use pool::{PageOrder, Promise};

/// Faults that break no promise of dma_pool: what breaks is a client's assumption.
const OF_CLIENTS: [&str; 4] = ["descending", "swapped-pairs", "page-header", "guard-gap"];

fn run(mutants: &[Mutant], options: &Options) -> Report {
    mutants::run(mutants, options, &|_, _| {}).expect("the bench can be set up")
}

fn named(names: &[&str]) -> Vec<Mutant> {
    let mutants: Vec<_> = table().into_iter().filter(|mutant| names.contains(&&*mutant.name)).collect();
    assert_eq!(mutants.len(), names.len(), "{names:?} are mutants of the table");
    mutants
}

#[test]
fn there_are_enough_of_them_and_each_has_a_name() {
    let (pools, drivers): (Vec<_>, Vec<_>) = table().into_iter().partition(Mutant::is_of_pool);
    assert!(pools.len() >= 30 && drivers.len() >= 10, "{} and {}", pools.len(), drivers.len());
    let all = pools.iter().chain(&drivers);
    let names: BTreeSet<_> = all.clone().map(|mutant| &mutant.name).collect();
    assert_eq!(names.len(), pools.len() + drivers.len(), "a name is there twice");
    let abouts: BTreeSet<_> = all.clone().map(|mutant| &mutant.about).collect();
    assert_eq!(abouts.len(), names.len(), "two mutants say the same of themselves");
    for mutant in all {
        let plain = mutant.name.chars().all(|letter| letter == '-' || letter.is_ascii_lowercase());
        assert!(plain, "{}: a name for a command line", mutant.name);
        assert!(!mutant.about.is_empty() && !mutant.about.contains('\n'), "{}", mutant.name);
    }
}

#[test]
fn the_contract_stage_catches_every_fault_of_a_pool_that_breaks_a_promise() {
    let mutants: Vec<_> = table().into_iter().filter(Mutant::is_of_pool).collect();
    // Of the machines, those that differ most.
    let (orders, steps) = (vec![PageOrder::Forward, PageOrder::Scattered(1)], 60);
    let contract = Config { page_sizes: vec![4096], orders, steps, ..Config::default() };
    let report = run(&mutants, &Options { contract, contract_only: true, ..Options::default() });
    for baseline in &report.baselines {
        assert_eq!(baseline.catches, [], "{} has no fault", baseline.mutant.name);
    }
    for trial in &report.mutants {
        let name = &*trial.mutant.name;
        let expected = !OF_CLIENTS.contains(&name) && trial.mutant.survives.is_none();
        assert_eq!(!trial.catches.is_empty(), expected, "{name}: {:?}", trial.catches);
        let by_promise = trial.catches.iter().all(|catch| matches!(catch.how, How::Promise(..)));
        assert!(by_promise, "{name}: {:?}", trial.catches);
    }
}

/// One of each kind: in the pool, in the order that a client relies on, in the driver.
#[test]
fn what_catches_a_mutant_is_told() {
    let contract = Config { page_sizes: vec![4096], orders: vec![PageOrder::Forward], ..Config::default() };
    let options = Options { contract, ..Options::default() };
    let report = run(&named(&["not-zeroed", "descending", "missing-terminate", "no-ios"]), &options);
    assert!(!report.is_broken());
    assert_eq!(report.caught(), 4);
    let baselines: Vec<_> = report.baselines.iter().map(|trial| &*trial.mutant.name).collect();
    assert_eq!(baselines, ["listed", "driver"], "only what is needed");
    let catch = |name: &str| {
        let trial = report.mutants.iter().find(|trial| trial.mutant.name == name).expect("it was asked for");
        assert_eq!(trial.outcome(), Outcome::Caught);
        let [catch] = &*trial.catches else { panic!("{:?}", trial.catches) };
        catch.clone()
    };
    let zeroing = catch("not-zeroed");
    assert_eq!(zeroing.scenario, "pool-contract");
    assert!(matches!(zeroing.how, How::Promise(Promise::Zeroing, _)), "{:?}", zeroing.how);
    let order = catch("descending");
    assert_eq!((&*order.scenario, &*order.setting), ("bootloader-to-ethernet", "4 endpoints, full-speed"));
    assert!(matches!(order.how, How::Finding("LayoutContract", _)), "{:?}", order.how);
    assert!(matches!(catch("missing-terminate").how, How::Finding("Unmapped", _)));
    assert_eq!(catch("no-ios").how, How::Error("device descriptor read/64, error -110".to_owned()));
}

#[test]
fn a_survivor_counts_and_says_why() {
    let options = Options { contract_only: true, ..Options::default() };
    let contract = Config { page_sizes: vec![4096], orders: vec![PageOrder::Forward], ..Config::default() };
    let report = run(&named(&["foreign-accepted", "guard-gap"]), &Options { contract, ..options });
    let outcomes: Vec<_> = report.mutants.iter().map(mutants::Trial::outcome).collect();
    // Without any device nothing catches what a device would; that nobody explains.
    assert!(matches!(outcomes[..], [Outcome::Survived, Outcome::Excused(_)]), "{outcomes:?}");
    assert_eq!(report.caught(), 0);
    assert!(report.is_broken());
}

#[test]
fn a_known_survivor_that_is_caught_is_an_error_of_the_table() {
    let mut mutants = named(&["size-rounded-down"]);
    mutants[0].survives = Some("blocks may overlap");
    let contract = Config { page_sizes: vec![4096], orders: vec![PageOrder::Forward], ..Config::default() };
    let report = run(&mutants, &Options { contract, contract_only: true, ..Options::default() });
    assert_eq!(report.mutants[0].outcome(), Outcome::Unexpected("blocks may overlap"));
    assert!(report.is_broken());
}
