SELECT id, cume_dist() OVER (PARTITION BY shop ORDER BY lot) AS answer FROM sales
