SELECT auction, bidder, 0.908 * price AS price,
       CASE WHEN hour BETWEEN 8 AND 18 THEN 'dayTime'
            WHEN hour <= 6 OR hour >= 20 THEN 'nightTime'
            ELSE 'otherTime' END AS bid_time_type,
       date_time, extra
FROM (SELECT *, date_time // 3600000 % 24 AS hour FROM bid)
WHERE 0.908 * price > 1000000 AND 0.908 * price < 50000000
