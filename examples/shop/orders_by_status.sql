-- how many orders are in each state, and the first and the last day on which one of them was placed
SELECT status, count(*) AS orders, count(shipped_on) AS shipped, min(placed_on) AS first_day, max(placed_on) AS last_day
FROM orders
GROUP BY status
