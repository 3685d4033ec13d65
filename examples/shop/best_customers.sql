-- the ten customers who ordered for most money
SELECT o.customer_id, sum(l.quantity * p.price) AS spent
FROM orders o JOIN lines l ON o.order_id = l.order_id JOIN products p ON l.product_id = p.product_id
GROUP BY o.customer_id
ORDER BY spent DESC, o.customer_id
LIMIT 10
