SELECT id, sum(amount) OVER (PARTITION BY shop) AS answer FROM sales
