-- orders of more than ten pieces that are not shipped
SELECT o.order_id, o.placed_on, sum(l.quantity) AS pieces
FROM orders o JOIN lines l ON l.order_id = o.order_id
WHERE o.shipped_on IS NULL
GROUP BY o.order_id, o.placed_on
HAVING sum(l.quantity) > 10
