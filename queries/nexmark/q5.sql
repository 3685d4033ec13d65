WITH counted AS (
    SELECT auction, (date_time // 2000 - step) * 2000 AS window_start, count(*) AS bids
    FROM bid CROSS JOIN range(5) AS steps(step)
    GROUP BY auction, (date_time // 2000 - step) * 2000
)
SELECT window_start, auction, bids
FROM counted
QUALIFY bids = max(bids) OVER (PARTITION BY window_start)
