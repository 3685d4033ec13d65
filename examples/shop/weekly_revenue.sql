-- the revenue of each day, and of the seven days that end with it
SELECT day, revenue, sum(revenue) OVER (
    ORDER BY day RANGE BETWEEN INTERVAL 6 DAYS PRECEDING AND CURRENT ROW
) AS week
FROM (
    SELECT o.placed::DATE AS day, sum(l.quantity * l.price) AS revenue
    FROM orders o JOIN lines l USING (order_id)
    GROUP BY o.placed::DATE
)
