//! `lab ceph test`: all checks of the program on images of real clusters, a small one, one with three copies, one that can
//! be cut off, and one with gateways. It decides
//! what is checked in which order, and tells what is wrong; each check says what is right.

use std::path::Path;

use super::config::Shape;
use super::testbed::Testbed;
use super::{
    administration, commands, content, cuts, encryption, failures, fencing, gateways, idle, images, imports,
    lifetimes, moments, refusals, restarts, upgrades,
};
use crate::answer::has_failed;

/// A check: what it is called, and what finds out.
type Check = (&'static str, fn(&mut Testbed) -> Result<(), String>);

/// On one OSD in memory, where who connects needs a key.
const SMALL: [Check; 54] = [
    ("what is written is exported", content::written_is_exported),
    ("what is imported is read", content::imported_is_read),
    ("verified writes over two queues are exported", content::verified_is_exported),
    ("blocks of 512 and of 4096 bytes are the same image", content::block_sizes_agree),
    ("Write Zeroes leaves zeroes, and nothing else", commands::zeroes_are_written),
    ("deallocated objects are gone and read as zeroes", commands::deallocated_objects_are_gone),
    ("Compare tells equal from different", commands::compare_tells_differences),
    ("a fused pair writes only what was compared", commands::pairs_compare_and_write),
    ("fused pairs of two hosts are atomic", commands::pairs_are_atomic),
    ("what was flushed or written durably outlives kill -9", commands::durable_outlives_the_target),
    ("a snapshot is read only, and what was there", images::snapshots_are_read_only),
    ("a host follows the size of the image", images::sizes_are_followed),
    ("an image in a namespace of RADOS", images::namespaces_of_rados_are_served),
    ("a user with `profile rbd`", images::users_have_their_own_keys),
    ("an image goes from target to target, after kill -9 too", images::images_are_given_back),
    ("a clone hides what it has not of its parent", images::clones_hide_their_parents),
    ("images of all kinds", images::images_of_all_kinds_are_served),
    ("encrypted images", encryption::images_are_encrypted),
    ("encrypted images and their passphrases", encryption::only_by_the_passphrase),
    ("snapshots of several images at one moment", moments::of_one_target),
    ("snapshots at one moment of two gateways' images", moments::of_two_gateways),
    ("hosts that vanish leave nothing behind", lifetimes::hosts_vanish),
    ("a target ends well under load", lifetimes::target_ends_under_load),
    ("a namespace goes under load, and comes again", lifetimes::namespace_goes_and_comes),
    ("an image that is made later is served then", lifetimes::image_comes_later),
    ("an image is served when another target has given it back", lifetimes::image_is_taken_over),
    ("images go over to the new process of their target", upgrades::images_go_over),
    ("writes of a blocklisted target do not land", fencing::blocklisted_writes_do_not_land),
    ("locks of a dead target delay no start", restarts::locks_of_the_dead_delay_no_start),
    ("a target that is stopped is not shut out", restarts::stopped_is_not_shut_out),
    (
        "a missing right to blocklist a dead target is logged",
        restarts::a_missing_right_to_blocklist_is_logged,
    ),
    ("images come and go with their namespaces, when that is asked for", administration::images_come_and_go),
    ("what cannot be done to an image is refused", administration::what_cannot_be_is_refused),
    (
        "an image of a refused namespace is not left open",
        administration::what_is_refused_leaves_no_image_open,
    ),
    ("an image locked by hand is refused", administration::images_locked_by_hand_are_refused),
    ("images that others have open stay", administration::images_in_use_stay),
    ("the program changes sizes of images", administration::sizes_are_changed),
    ("a clone is what was there, with its snapshot and without", administration::clones_are_what_was_there),
    (
        "administration goes on while a cluster is silent",
        administration::a_silent_cluster_delays_no_administration,
    ),
    ("a group of ceph-nvmeof is imported from its pool, and served", imports::a_group_is_imported),
    ("a monitor that is away is not noticed by writes", failures::monitor_is_away),
    ("no library", refusals::no_library),
    ("no such pool", refusals::no_such_pool),
    ("no such image", refusals::no_such_image),
    ("no such snapshot", refusals::no_such_snapshot),
    ("no such namespace of RADOS", refusals::no_such_namespace_of_rados),
    ("no configuration file", refusals::no_configuration),
    ("no such user", refusals::no_such_user),
    ("no keyring", refusals::no_keyring),
    ("a wrong key", refusals::wrong_key),
    ("no monitor", refusals::no_monitor),
    ("a monitor that says nothing", refusals::silent_monitor),
    ("an image that another target has says who that is", refusals::in_use_elsewhere),
    ("what 64 idle images cost", idle::images_cost_little),
];

/// On three copies of everything.
const REPLICATED: [Check; 3] = [
    ("kill -9 of one OSD of three under verified writes", failures::one_osd_is_killed),
    ("SIGSTOP of one OSD of three under verified writes", failures::one_osd_is_stopped),
    ("all OSDs are away: hosts may try again, and memory goes on", failures::all_osds_are_stopped),
];

/// Arguments of the trial.
#[derive(clap::Args, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Trial {
    /// The selvedge to try
    #[arg(long, value_name = "PATH")]
    pub(super) program: String,
    /// Folder of its files and the logs
    #[arg(long, value_name = "DIR", default_value = "ceph")]
    pub(super) output: std::path::PathBuf,
    /// Only checks with this in their names
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    pub(super) only: String,
    /// Seed of all contents [default: random, and printed]
    #[arg(long, value_name = "N", default_value_t = crate::command_line::chance(), hide_default_value = true)]
    pub(super) seed: u64,
}

impl Trial {
    /// All checks. How many failed.
    ///
    /// # Errors
    /// No cluster comes up, or no check is called so.
    pub(super) fn run(&self) -> Result<usize, String> {
        let output = &self.output;
        std::fs::create_dir_all(output).map_err(|error| format!("{}: {error}", output.display()))?;
        let output = output.canonicalize().map_err(|error| format!("{}: {error}", output.display()))?;
        println!("seed {}", self.seed);
        let small = Shape { needs_keys: true, ..Shape::SMALL };
        let clusters = [(small, &SMALL[..]), (Shape::REPLICATED, &REPLICATED[..])];
        let (mut count, mut failed) = (0, 0);
        for (shape, checks) in clusters {
            let checks: Vec<&Check> = checks.iter().filter(|(name, _)| name.contains(&self.only)).collect();
            count += checks.len();
            if !checks.is_empty() {
                failed += self.on(&output, shape, &checks)?;
            }
        }
        count += cuts::count_checks(&self.only);
        failed += cuts::check(&self.program, &output, &self.only, self.seed)?;
        let rounds = gateways::count_checks(&self.only);
        count += rounds;
        if rounds > 0 {
            failed += gateways::check(&self.program, &output, &self.only, self.seed)?;
        }
        if count == 0 { Err(format!("no check has `{}` in its name", self.only)) } else { Ok(failed) }
    }

    fn on(&self, output: &Path, shape: Shape, checks: &[&Check]) -> Result<usize, String> {
        let mut testbed = Testbed::new(&self.program, output, shape, self.seed)?;
        let mut failed = 0;
        for (name, check) in checks {
            if has_failed(name, &check(&mut testbed)) {
                failed += 1;
                // What one check did to the cluster must not make the others fail.
                testbed.cluster.restore()?;
            }
        }
        if failed > 0 {
            testbed.keep_logs();
        }
        Ok(failed)
    }
}
