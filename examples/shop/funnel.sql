-- the customers who ordered in each week, those who got a parcel, and those who got one within three days
SELECT date_trunc('week', placed) AS week, count(DISTINCT customer_id) AS ordered,
       count(DISTINCT customer_id) FILTER (WHERE shipped_on IS NOT NULL) AS served,
       count(DISTINCT customer_id) FILTER (WHERE date_diff('day', placed, shipped_on) < 3) AS served_soon
FROM orders
GROUP BY date_trunc('week', placed)
