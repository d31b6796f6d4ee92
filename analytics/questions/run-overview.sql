-- question: What ran: which jobs, how long, with how many participants, checkpoints and events?
-- read: One row per job, from the first to the newest event. `participants` counts distinct ids that any page listed.
WITH people AS (SELECT job, site, count(DISTINCT participant) AS participants FROM snapshots GROUP BY ALL),
made AS (SELECT job, site, count(DISTINCT sha256) AS checkpoints, max(round) AS rounds FROM checkpoints GROUP BY ALL),
failed AS (SELECT job, site, count(*) AS failed_commands FROM commands WHERE outcome = 'error' GROUP BY ALL),
last_word AS (
    SELECT job, site, arg_max(phase, position) AS phase, arg_max(aggregation, position) AS aggregation
    FROM jobs WHERE is_owner GROUP BY ALL
)
SELECT
    events.job,
    events.site,
    any_value(phase) AS phase,
    any_value(aggregation) AS aggregation,
    min(recorded_at) AS first_at,
    max(recorded_at) AS last_at,
    epoch(max(recorded_at)) - epoch(min(recorded_at)) AS duration_s,
    any_value(rounds) AS rounds,
    any_value(participants) AS participants,
    any_value(checkpoints) AS checkpoints,
    coalesce(any_value(failed_commands), 0) AS failed_commands,
    count(*) AS events,
    min(position) AS first_position
FROM events
LEFT JOIN people ON people.job = events.job AND people.site = events.site
LEFT JOIN made ON made.job = events.job AND made.site = events.site
LEFT JOIN failed ON failed.job = events.job AND failed.site = events.site
LEFT JOIN last_word ON last_word.job = events.job AND last_word.site = events.site
WHERE events.job IS NOT NULL AND events.type NOT IN ('artifact.archived', 'replay.requested', 'replay.judged')
GROUP BY events.job, events.site
ORDER BY first_position
