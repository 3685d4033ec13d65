-- the amount of each order, and what its customer has spent until then
SELECT customer_id, placed, order_id, amount, sum(amount) OVER (
    PARTITION BY customer_id ORDER BY placed, order_id
) AS balance
FROM (
    SELECT o.customer_id, o.placed, o.order_id, sum(l.quantity * l.price) AS amount
    FROM orders o JOIN lines l USING (order_id)
    GROUP BY o.customer_id, o.placed, o.order_id
)
