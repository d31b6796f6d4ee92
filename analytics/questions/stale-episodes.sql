-- question: When was which participant stale, and for how long?
-- parameter: job text = null  The job's id; all jobs when left out.
-- parameter: stale_after_s number = 10  Seconds without fresh evidence, where the job recorded no limit of its own.
-- read: One row per episode. Fresh evidence is a snapshot by the participant's own page, or another page's snapshot in which the participant's report marker moved on; silence longer than the limit makes it stale. `gap_s` is the whole silence, `stale_s` what went beyond the limit. `until` is null where the record ends within the episode; `last_position` is the last evidence before it. A participant that has left is not stale.
-- chart: mark=bar x=stale_from y=participant color=job
WITH marked AS (
    SELECT
        *,
        lag(seen_at_ms) OVER page AS seen_before,
        lag(stage_sequence) OVER page AS sequence_before
    FROM snapshots
    WHERE $job IS NULL OR job = $job
    WINDOW page AS (PARTITION BY job, site, recorder, participant ORDER BY position)
),

evidence AS (
    SELECT job, site, participant, position, recorded_at, status, coalesce(stale_after_s, $stale_after_s) AS limit_s
    FROM marked
    WHERE is_own_page OR seen_at_ms > seen_before OR stage_sequence > sequence_before
        OR (seen_before IS NULL AND sequence_before IS NULL)
),

record AS (
    SELECT job, site, max(recorded_at) AS ended_at
    FROM events
    GROUP BY ALL
),

gaps AS (
    SELECT
        job, site, participant, position, recorded_at, limit_s, status,
        lead(recorded_at) OVER signs AS until,
        lead(position) OVER signs AS next_position
    FROM evidence
    WINDOW signs AS (PARTITION BY job, site, participant ORDER BY position)
)

SELECT
    gaps.job,
    gaps.participant,
    gaps.recorded_at + to_milliseconds((limit_s * 1000)::BIGINT) AS stale_from,
    until,
    epoch(coalesce(until, ended_at)) - epoch(gaps.recorded_at) AS gap_s,
    epoch(coalesce(until, ended_at)) - epoch(gaps.recorded_at) - limit_s AS stale_s,
    limit_s,
    gaps.position AS last_position,
    next_position
FROM gaps JOIN record USING (job, site)
WHERE epoch(coalesce(until, ended_at)) - epoch(gaps.recorded_at) >= limit_s AND status IS DISTINCT FROM 'left'
ORDER BY stale_from, gaps.job, gaps.participant
