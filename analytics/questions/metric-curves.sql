-- question: How did each metric develop over the rounds, and which round was best?
-- parameter: job text  The job's id.
-- parameter: split text = null  training or validation; both when left out.
-- read: One row per metric, split and round: the value reported last. `value_tag` names a value that is not finite (it is no number and does not take part in `is_best`). `direction` is what the selected model says; where it says nothing, or two reports say different things, `direction` and `is_best` are null, since better cannot be told from worse. Among equal values the lowest round is best.
-- chart: mark=line x=round y=value color=name series=split
WITH current_values AS (
    SELECT job, site, name, split, round, sha256, label, value, value_tag, reason, position,
        CASE WHEN min(direction) OVER metric = max(direction) OVER metric THEN max(direction) OVER metric END AS direction
    FROM metrics
    WHERE job = $job AND ($split IS NULL OR split = $split)
    WINDOW metric AS (PARTITION BY job, site, name)
    QUALIFY row_number() OVER (PARTITION BY job, site, name, split, round ORDER BY observed_at DESC, position DESC) = 1
),

ranked AS (
    SELECT *,
        row_number() OVER (
            PARTITION BY job, site, name, split
            ORDER BY value IS NULL, CASE direction WHEN 'max' THEN -value WHEN 'min' THEN value END, round
        ) AS place
    FROM current_values
)

SELECT
    name, label, split, round, value, value_tag, reason, direction,
    CASE WHEN direction IS NULL THEN NULL ELSE place = 1 AND value IS NOT NULL END AS is_best,
    sha256, position
FROM ranked
ORDER BY name, split, round
