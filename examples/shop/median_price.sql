-- the median price of the lines of each category
SELECT p.category, median(l.price) AS median_price
FROM lines l JOIN products p USING (product_id)
GROUP BY p.category
