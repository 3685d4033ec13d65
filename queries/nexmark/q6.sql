SELECT seller, id, avg(final) OVER (
    PARTITION BY seller ORDER BY expires, id ROWS BETWEEN 10 PRECEDING AND CURRENT ROW
) AS price
FROM (
    SELECT seller, id, expires, max(price) AS final
    FROM auction JOIN bid ON id = auction
    WHERE bid.date_time BETWEEN auction.date_time AND expires
    GROUP BY seller, id, expires
)
