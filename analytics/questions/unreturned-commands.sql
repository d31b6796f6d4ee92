-- question: Which commands were called and never returned?
-- parameter: job text = null  The job's id; all jobs when left out.
-- read: One row per called command whose return is not in the record: the page may have closed, or it still runs.
SELECT called.job, called.name AS command, called.recorded_at AS called_at, called.recorder, called.position AS called_position
FROM commands AS called
WHERE NOT called.is_return AND ($job IS NULL OR called.job = $job)
    AND NOT EXISTS (SELECT 1 FROM commands AS returned WHERE returned.is_return AND returned.called_id = called.event_id)
ORDER BY called.position
