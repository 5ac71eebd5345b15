"""Verbs of jobs: run, follow, approve, control."""

from __future__ import annotations

from typing import Final

from holdfast.cli.verb import FLEET, Kind, Verb

JOB_VERBS: Final = (
    Verb(
        "run",
        "Run a command on many hosts",
        f"{FLEET}.run:run",
        (
            "holdfast run 'systemctl restart nginx' --hosts role=web --waves 1,5%,rest --max-fail 2% --watch",
            "holdfast run uptime --hosts 'web-[001-050]' --plan",
            "holdfast run nginx --type restart --hosts @blue --external-id deploy-42 -m 'change 118'",
        ),
        Kind.WRITE,
    ),
    Verb(
        "rehearse",
        "Show what a job would do, on simulated hosts",
        f"{FLEET}.rehearse:rehearse",
        (
            "holdfast rehearse 'systemctl restart nginx' --hosts role=web --waves 1,5%,rest --loss 10%",
            "holdfast run ./deploy.sh --hosts role=web --rehearse --takes 10..60 --fail 1% --seed 7",
        ),
        Kind.SHOW,
    ),
    Verb(
        "approve",
        "Vote for a job",
        f"{FLEET}.vote:approve",
        ('holdfast approve deploy-42 -m "change 118"',),
        Kind.WRITE,
    ),
    Verb(
        "reject",
        "Vote against a job",
        f"{FLEET}.vote:reject",
        ('holdfast reject deploy-42 -m "not before the release"',),
        Kind.WRITE,
    ),
    Verb(
        "withdraw",
        "Take your vote on a job back",
        f"{FLEET}.vote:withdraw",
        ("holdfast withdraw deploy-42",),
        Kind.WRITE,
    ),
    Verb(
        "approval list",
        "List the jobs that wait for votes",
        f"{FLEET}.approval:list_",
        ("holdfast approval list",),
        Kind.LIST,
    ),
    Verb(
        "job list",
        "List jobs, the latest first",
        f"{FLEET}.job:list_",
        (
            "holdfast job list",
            "holdfast job list --status WAIT_APPROVAL",
        ),
        Kind.LIST,
    ),
    Verb(
        "job show",
        "Show a job with its counts, waves and budget",
        f"{FLEET}.job:show",
        (
            "holdfast job show deploy-42",
            "holdfast job show @last --drift -o json",
        ),
        Kind.SHOW,
    ),
    Verb(
        "job plan",
        "Show where each host would run, or why not",
        f"{FLEET}.job:plan",
        ("holdfast job plan deploy-42",),
        Kind.LIST,
    ),
    Verb(
        "job executions",
        "List the hosts of a job and what became of them",
        f"{FLEET}.job:executions",
        (
            "holdfast job executions deploy-42 --status FAILED",
            "holdfast job executions deploy-42 --kind lost -o name",
        ),
        Kind.LIST,
    ),
    Verb(
        "job output",
        "Print the outputs of all hosts, equal ones once",
        f"{FLEET}.job:output",
        (
            "holdfast job output deploy-42",
            "holdfast job output deploy-42 --stream stderr",
        ),
        Kind.SHOW,
    ),
    Verb(
        "job why",
        "Show why a host of a job is where it is",
        f"{FLEET}.job:why",
        ("holdfast job why deploy-42 web-007",),
        Kind.SHOW,
    ),
    Verb(
        "job pause",
        "Start no further host of a job",
        f"{FLEET}.job_change:pause",
        ('holdfast job pause deploy-42 -m "the graphs look odd"',),
        Kind.WRITE,
    ),
    Verb(
        "job resume",
        "Go on with a paused job",
        f"{FLEET}.job_change:resume",
        ("holdfast job resume deploy-42",),
        Kind.WRITE,
    ),
    Verb(
        "job abort",
        "End a job; hosts that have not started are cancelled",
        f"{FLEET}.job_change:abort",
        (
            'holdfast job abort deploy-42 -m "wrong version"',
            "holdfast job abort deploy-42 --mode kill",
        ),
        Kind.WRITE,
    ),
    Verb(
        "job cancel",
        "End a job: the same as abort",
        f"{FLEET}.job_change:abort",
        ("holdfast job cancel deploy-42",),
        Kind.WRITE,
    ),
    Verb(
        "job promote",
        "Open the wave that waits for a person",
        f"{FLEET}.job_change:promote",
        ('holdfast job promote deploy-42 -m "the canary is well"',),
        Kind.WRITE,
    ),
    Verb(
        "job set",
        "Change the rollout of a job while it runs",
        f"{FLEET}.job_change:set_",
        (
            "holdfast job set deploy-42 --max-in-flight 10",
            "holdfast job set @last --max-fail 5",
        ),
        Kind.WRITE,
    ),
    Verb(
        "job retry",
        "Run a job again where it did not succeed",
        f"{FLEET}.job_change:retry",
        ("holdfast job retry deploy-42 --only failed,timeout",),
        Kind.WRITE,
    ),
    Verb(
        "job retry-failed",
        "The same as retry",
        f"{FLEET}.job_change:retry",
        ("holdfast job retry-failed deploy-42",),
        Kind.WRITE,
    ),
    Verb(
        "job break-glass",
        "Start a job without its approval, loudly",
        f"{FLEET}.job_change:break_glass",
        ('holdfast job break-glass deploy-42 --ticket INC-7 -m "the site is down"',),
        Kind.WRITE,
    ),
    Verb(
        "job review",
        "Review a job that skipped its approval",
        f"{FLEET}.job_change:review",
        ('holdfast job review deploy-42 -m "it was right"',),
        Kind.WRITE,
    ),
)
