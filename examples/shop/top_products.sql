-- the ten products of each category that sold for most money
SELECT p.category, p.name, sum(l.quantity * l.price) AS revenue
FROM lines l JOIN products p USING (product_id)
GROUP BY p.category, p.product_id, p.name
QUALIFY row_number() OVER (PARTITION BY p.category ORDER BY revenue DESC, p.product_id) <= 10
