-- question: When was which participant stale, and for how long?
-- parameter: job text = null  The job's id; all jobs when left out.
-- parameter: stale_after_s number = 10  Seconds without fresh evidence, where the job recorded no limit of its own.
-- read: One row per episode. Fresh evidence is a snapshot by the participant's own page, its first sighting in the job, or another page's snapshot in which the participant's report marker moved on; a page that merely lists it again proves nothing. Silence as long as the limit makes it stale. `gap_s` is the whole silence, `stale_s` what went beyond the limit. `until` is the next evidence, or the moment when its own page or the owner's said that it left, since who has left is not stale; null where the record ends within the episode. `last_position` is the last evidence before it.
-- chart: mark=bar x=stale_from y=participant color=job
WITH owners AS (
    SELECT job, site, min(position) AS heard_from FROM jobs WHERE is_owner GROUP BY ALL
),

firsts AS (
    SELECT job, site, participant, min(position) AS first_position FROM snapshots GROUP BY ALL
),

marked AS (
    SELECT
        snapshots.job, snapshots.site, snapshots.participant, snapshots.position, snapshots.recorded_at, status, is_own_page,
        coalesce(snapshots.stale_after_s, $stale_after_s) AS limit_s,
        is_own_page OR is_owner OR heard_from IS NULL OR snapshots.position < heard_from AS counts_for_status,
        seen_at_ms, stage_sequence,
        lag(snapshots.position) OVER page AS listed_before,
        lag(seen_at_ms, 1, '-Infinity'::DOUBLE) OVER page AS seen_before,
        lag(stage_sequence, 1, '-Infinity'::DOUBLE) OVER page AS sequence_before,
        lag(status) OVER page AS status_before,
        snapshots.position = first_position AS is_first
    FROM snapshots
    LEFT JOIN jobs ON jobs.position = snapshots.position
    LEFT JOIN owners ON owners.job = snapshots.job AND owners.site = snapshots.site
    LEFT JOIN firsts
        ON firsts.job = snapshots.job AND firsts.site = snapshots.site AND firsts.participant = snapshots.participant
    WHERE $job IS NULL OR snapshots.job = $job
    WINDOW page AS (
        PARTITION BY snapshots.job, snapshots.site, snapshots.recorder, snapshots.participant ORDER BY snapshots.position
    )
),

words AS (
    SELECT
        job, site, participant, position, recorded_at, limit_s,
        coalesce(
            is_own_page OR is_first OR listed_before IS NOT NULL AND (
                seen_at_ms > coalesce(seen_before, '-Infinity'::DOUBLE)
                OR stage_sequence > coalesce(sequence_before, '-Infinity'::DOUBLE)
            ), false
        ) AS is_evidence,
        CASE WHEN counts_for_status AND status IS DISTINCT FROM status_before THEN status END AS told
    FROM marked
),

standing AS (
    SELECT
        job, site, participant, position, recorded_at, limit_s, told,
        count(*) FILTER (is_evidence) OVER so_far AS silence,
        last_value(told IGNORE NULLS) OVER so_far AS status
    FROM words
    WHERE is_evidence OR told IS NOT NULL
    WINDOW so_far AS (PARTITION BY job, site, participant ORDER BY position ROWS UNBOUNDED PRECEDING)
),

silences AS (
    SELECT
        job, site, participant,
        min(position) AS position,
        first(recorded_at ORDER BY position) AS recorded_at,
        first(limit_s ORDER BY position) AS limit_s,
        first(status ORDER BY position) AS status,
        min(position) FILTER (told = 'left') AS left_position,
        min(recorded_at) FILTER (told = 'left') AS left_at
    FROM standing
    GROUP BY job, site, participant, silence
),

gaps AS (
    SELECT
        job, site, participant, position, recorded_at, limit_s, status,
        coalesce(left_at, lead(recorded_at) OVER signs) AS until,
        coalesce(left_position, lead(position) OVER signs) AS next_position
    FROM silences
    WINDOW signs AS (PARTITION BY job, site, participant ORDER BY position)
),

record AS (
    SELECT job, site, max(recorded_at) AS ended_at FROM events GROUP BY ALL
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
