-- question: How fast did each backend compute, over time?
-- parameter: job text  The job's id.
-- parameter: bucket_s integer = 10  Seconds that one row covers.
-- read: One row per backend and span: the mean and the extremes of the computation-only speed that participants' own pages reported in it, in samples per second. Spans without a report have no row; unreported speeds are counted, never taken as 0.
-- chart: mark=line x=moment y=mean_samples_per_second color=backend
SELECT
    time_bucket(to_seconds($bucket_s), recorded_at) AS moment,
    coalesce(backend, 'not reported') AS backend,
    avg(samples_per_second) AS mean_samples_per_second,
    min(samples_per_second) AS min_samples_per_second,
    max(samples_per_second) AS max_samples_per_second,
    count(DISTINCT participant) AS participants,
    count(samples_per_second) AS reports,
    count(*) - count(samples_per_second) AS reports_without_speed
FROM snapshots
WHERE job = $job AND is_own_page
GROUP BY ALL
ORDER BY moment, backend
