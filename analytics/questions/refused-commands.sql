-- question: Which commands were refused or failed, when, and with which words?
-- parameter: job text = null  The job's id; all jobs when left out.
-- read: One row per command that returned an error, with the code and message that the page got. A command without a row may still not have returned: see `unreturned-commands`. That a command returned says nothing about training.
SELECT
    returned.job,
    returned.name AS command,
    returned.recorded_at AS returned_at,
    returned.error_code,
    returned.error_message,
    returned.duration_s,
    returned.recorder,
    called.position AS called_position,
    returned.position AS returned_position
FROM commands AS returned
LEFT JOIN commands AS called ON called.event_id = returned.called_id AND NOT called.is_return
WHERE returned.is_return AND returned.outcome = 'error' AND ($job IS NULL OR returned.job = $job)
ORDER BY returned.position
