SELECT *, row_number() OVER (PARTITION BY auction ORDER BY price DESC, date_time) AS rank_number
FROM bid
QUALIFY rank_number <= 10
