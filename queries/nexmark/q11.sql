SELECT bidder, count(*) AS bids, session_start, max(date_time) + 10000 AS session_end
FROM (
    SELECT bidder, date_time, max(start) OVER (PARTITION BY bidder ORDER BY date_time) AS session_start
    FROM (
        SELECT bidder, date_time,
               CASE WHEN date_time < 10000 + lag(date_time) OVER (PARTITION BY bidder ORDER BY date_time)
                    THEN NULL ELSE date_time END AS start
        FROM bid
    )
)
GROUP BY bidder, session_start
