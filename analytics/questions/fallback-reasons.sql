-- question: Who computed on another backend than asked for, and why?
-- parameter: job text = null  The job's id; all jobs when left out.
-- read: One row per participant and reason: the first and last own snapshot that says so. A null reason means that the page gave none: a silent fallback.
SELECT
    job, participant, requested_backend, backend, fallback_reason, gpu_available,
    min(recorded_at) AS first_at, max(recorded_at) AS last_at, count(*) AS snapshots, min(position) AS first_position
FROM snapshots
WHERE is_own_page AND backend IS DISTINCT FROM requested_backend AND requested_backend IS NOT NULL
    AND requested_backend <> 'auto' AND backend IS NOT NULL AND ($job IS NULL OR job = $job)
GROUP BY ALL
ORDER BY job, first_position
