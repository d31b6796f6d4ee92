-- question: How long did each participant spend in each stage?
-- parameter: job text  The job's id.
-- read: One row per participant and stage: how many stages ended, and their length in seconds by the page's own count. Lengths that no page reported are counted apart.
-- chart: mark=bar x=participant y=total_s color=stage
SELECT
    participant,
    stage,
    count(*) AS ended,
    sum(duration_s) AS total_s,
    avg(duration_s) AS mean_s,
    max(duration_s) AS max_s,
    count(*) - count(duration_s) AS without_duration
FROM stages
WHERE job = $job
GROUP BY ALL
ORDER BY participant, stage
