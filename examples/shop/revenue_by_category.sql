-- the revenue of each category at the present prices; products without a category count as one
SELECT p.category, count(*) AS lines, sum(l.quantity) AS units, sum(l.quantity * p.price) AS revenue
FROM lines l JOIN products p ON l.product_id = p.product_id
GROUP BY p.category
