//! Gateways in made-up worlds full of faults: whatever happens, never two can write to one namespace, and when
//! nothing more happens, each serves its own.

use super::model::{Flaw, World};

const WORLDS: u64 = 300;
/// Until a flaw is noticed: the rarest shows in one of some 200 worlds.
const FLAWED_WORLDS: u64 = 3_000;
const TROUBLE_MS: u64 = 120_000;
const REST_MS: u64 = 60_000;

/// Plays one world; what went wrong in it, and how many takeovers, returns and moves to hosts there were, answers that one is
/// at rest, removals, and upgrades.
fn play(seed: u64, flaw: Flaw) -> Result<[usize; 6], String> {
    let mut world = World::new(seed, flaw);
    world.trouble();
    world.run_until(TROUBLE_MS);
    world.calm();
    world.run_until(TROUBLE_MS + REST_MS);
    let wrong = world.wrong.take().or_else(|| world.unrest());
    let sums = [world.takeovers, world.returns, world.moves, world.rests, world.removals, world.upgrades];
    wrong.map_or(Ok(sums), Err)
}

#[test]
fn never_two_write_and_all_comes_to_rest() {
    let mut sum = [0; 6];
    for seed in 0..WORLDS {
        let done = play(seed, Flaw::None).unwrap_or_else(|what| panic!("seed {seed}: {what}"));
        sum.iter_mut().zip(done).for_each(|(sum, done)| *sum += done);
    }
    let [takeovers, returns, moves, rests, removals, upgrades] = sum;
    println!(
        "{WORLDS} worlds, {takeovers} takeovers, {returns} returns, {moves} moves to hosts, {rests} answers that one is at rest, \
         {removals} removals, {upgrades} upgrades"
    );
    let is_enough = removals > 300 && upgrades > 300 && sum[..4].iter().all(|count| *count > 1_000);
    assert!(is_enough, "{sum:?}: too little happens");
}

#[test]
fn what_is_broken_on_purpose_is_noticed() {
    let two = "can be written by";
    let rested = "at rest";
    for (flaw, expected) in [
        (Flaw::NoBlocklist, two),
        (Flaw::NoVersion, two),
        (Flaw::LateRelease, two),
        (Flaw::AnyConnection, two),
        (Flaw::RestBeforeFence, rested),
        (Flaw::RestByOldState, rested),
        (Flaw::HandOverOfLate, two),
        (Flaw::RemovalBeforeFence, two),
        (Flaw::DissolvedUnderOwner, two),
        (Flaw::LockedAtGo, two),
        (Flaw::UnnotedSuccessor, two),
    ] {
        let is_unsafe = |what: &String| what.contains(expected);
        let noticed = (0..FLAWED_WORLDS).find(|seed| play(*seed, flaw).is_err_and(|what| is_unsafe(&what)));
        println!("{flaw:?} is noticed with seed {noticed:?}");
        assert!(noticed.is_some(), "{flaw:?} is not noticed in {FLAWED_WORLDS} worlds");
    }
}
