-- the mean discount by kind of order, of the lines that have one
SELECT o.status, count(l.discount) AS discounted, avg(l.discount) AS mean
FROM orders o LEFT JOIN lines l ON l.order_id = o.order_id
GROUP BY o.status
