SELECT category, avg(final) AS price
FROM (
    SELECT max(price) AS final, category
    FROM auction JOIN bid ON id = auction
    WHERE bid.date_time BETWEEN auction.date_time AND expires
    GROUP BY id, category
)
GROUP BY category
